"""A small site under the console's policy, to try its scripts on.

Pages as given, and routes that remember what they were sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from odfabric.settings import Settings
from odfabric_api.web.assets import Assets
from tests.services.api.serving import serving_app

TOKEN = "token-of-the-session"
NONCE = "bm9uY2U="
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{NONCE}'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@dataclass(slots=True)
class Workshop:
    """The site; `got` has each request that changes something: path, headers, body."""

    url: str = ""
    bodies: dict[str, str] = field(default_factory=dict)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: dict[str, Response] = field(default_factory=dict)
    """By path, for every method."""

    def page(self, name: str, body: str) -> str:
        """Path of a page with this body."""
        self.bodies[name] = body
        return f"/{name}"


@contextmanager
def workshop(settings: Settings) -> Iterator[Workshop]:
    """Serve the site with the scripts of this installation."""
    site, assets, app = Workshop(), Assets.load(), FastAPI()
    app.state.closing = threading.Event()

    @app.get("/-/assets/{file}")
    def asset(file: str) -> Response:
        found = assets.read(file)
        return Response(found[0], media_type=found[1]) if found else Response(status_code=404)

    @app.get("/{name}")
    def page(name: str) -> Response:
        if name in site.answers:
            return site.answers[name]
        scripts = "".join(
            f'<script type="module" src="{assets.url(entry)}"></script>' for entry in ("console", "editor")
        )
        head = (
            f'<meta charset="utf-8"><title>{name}</title><meta name="csrf-token" content="{TOKEN}">'
            f'<meta name="csp-nonce" content="{NONCE}"><script src="{assets.url("theme")}"></script>{scripts}'
        )
        body = site.bodies.get(name, f"<h1>arrived at {name}</h1>")
        text = f'<!doctype html><html lang="en"><head>{head}</head><body><main>{body}</main></body></html>'
        return HTMLResponse(text, headers={"content-security-policy": POLICY})

    @app.post("/{path:path}")
    async def receive(path: str, request: Request) -> Response:
        site.got.append((path, dict(request.headers), await request.body()))
        return site.answers.get(path, JSONResponse({}))

    with serving_app(app, settings) as served:
        site.url = served.url
        yield site

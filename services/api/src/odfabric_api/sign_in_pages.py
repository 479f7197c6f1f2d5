"""The three plain pages that signing in needs: a password, an invitation, a device to be approved. No script; every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from starlette.responses import HTMLResponse

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:4rem auto;padding:0 1rem}"
    "h1{font-size:1.4rem}label{display:block;margin:1rem 0 .25rem}"
    "input{width:100%;box-sizing:border-box;padding:.5rem;font:inherit}"
    "button{margin:1.5rem .5rem 0 0;padding:.5rem 1.25rem;font:inherit;cursor:pointer}"
    ".problem{border-left:4px solid #c33;padding:.25rem .75rem}code{font-size:1.1em}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
}


def login_page(
    *, then: str, problem: str | None = None, providers: Sequence[tuple[str, str]] = (), status: int = 200
) -> HTMLResponse:
    """Name and password; `then` is the page of this node that follows, `providers` are names and labels of others who vouch."""
    links = "".join(
        f'<p><a href="/oidc/{escape(name)}/start?then={escape(quote(then))}">Sign in with {escape(label)}</a></p>'
        for name, label in providers
    )
    form = (
        f'<form method="post" action="/login"><input type="hidden" name="then" value="{escape(then)}">'
        '<label for="login">Account</label><input id="login" name="login" autocomplete="username" required autofocus>'
        '<label for="password">Password</label>'
        '<input id="password" name="password" type="password" autocomplete="current-password" required>'
        "<button>Sign in</button></form>"
    )
    return _page("Sign in", _problem(problem) + form + links, status)


def setup_page(
    *, code: str, name: str | None, is_new: bool, characters_min: int, problem: str | None = None, status: int = 200
) -> HTMLResponse:
    """A new account, or a new password for `name`."""
    fixed = f"<p>Your account is <strong>{escape(name)}</strong>.</p>" if name else ""
    choose = (
        ""
        if name
        else (
            '<label for="name">Account name</label>'
            '<input id="name" name="name" autocomplete="username" required pattern="[A-Za-z0-9]+([.\\-][A-Za-z0-9]+)*">'
            '<label for="displayName">Your name (optional)</label><input id="displayName" name="displayName">'
        )
    )
    form = (
        f'<form method="post" action="/setup"><input type="hidden" name="code" value="{escape(code)}">{fixed}{choose}'
        f'<label for="password">Password, at least {characters_min} characters</label>'
        f'<input id="password" name="password" type="password" autocomplete="new-password" minlength="{characters_min}" required>'
        f"<button>{'Make my account' if is_new else 'Change my password'}</button></form>"
    )
    return _page("Welcome" if is_new else "A new password", _problem(problem) + form, status)


def device_page(
    *, user_code: str | None, client: str | None, account: str, csrf: str, problem: str | None = None, status: int = 200
) -> HTMLResponse:
    """Ask for the code, or whether the device with this code may act as the account."""
    signed = f"<p>You are signed in as <strong>{escape(account)}</strong>.</p>"
    if user_code is None or client is None:
        form = (
            '<form method="get" action="/device"><label for="code">The code that the command shows</label>'
            '<input id="code" name="code" autocomplete="off" required autofocus><button>Go on</button></form>'
        )
        return _page("Sign a device in", signed + _problem(problem) + form, status)
    form = (
        f"<p><strong>{escape(client)}</strong> asks to act as you. Approve it only if you have just started it yourself, "
        f"and it shows the code <code>{escape(user_code)}</code>.</p>"
        f'<form method="post" action="/device"><input type="hidden" name="code" value="{escape(user_code)}">'
        f'<input type="hidden" name="csrf" value="{escape(csrf)}">'
        '<button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></form>'
    )
    return _page("Sign a device in", signed + _problem(problem) + form, status)


def link_page(*, label: str, account: str, href: str) -> HTMLResponse:
    """Ask whether somebody wants to sign in by a provider from now on; a page elsewhere may have led them here."""
    text = (
        f"<p>You are signed in as <strong>{escape(account)}</strong>. Whoever is signed in at {escape(label)} in this browser "
        "can sign in as you from then on.</p>"
    )
    return _page("Link an identity", f'{text}<p><a href="{escape(href)}">Link it</a></p>', 200)


def message_page(title: str, message: str, *, status: int = 200) -> HTMLResponse:
    """Nothing is left to do."""
    return _page(title, f"<p>{escape(message)}</p>", status)


def _problem(text: str | None) -> str:
    return f'<p class="problem" role="alert">{escape(text)}</p>' if text else ""


def _page(title: str, body: str, status: int) -> HTMLResponse:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} - odfabric</title><style>{_STYLE}</style><main><h1>{escape(title)}</h1>{body}</main></html>"
    )
    return HTMLResponse(page, status_code=status, headers=PAGE_HEADERS)

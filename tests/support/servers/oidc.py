"""An OpenID Connect provider that signs in anyone who is named, without passwords."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import httpx

from tests.support.servers.process import ServerProcess, running, server_folder
from tests.support.waiting import free_port


@dataclass(frozen=True)
class OidcServer:
    """A provider; any client id and secret will do."""

    issuer: str
    process: ServerProcess

    def set_user(self, subject: str, claims: Mapping[str, object]) -> None:
        """What its tokens say of somebody."""
        answer = httpx.put(f"{self.issuer}/users/{subject}", json=dict(claims), trust_env=False)
        answer.raise_for_status()

    def sign_in(self, url: str, subject: str) -> dict[str, str]:
        """What a browser does at the URL it was sent to.

        The parameters with which it comes back.
        """
        return self._come_back(url, {"sub": subject})

    def deny(self, url: str) -> dict[str, str]:
        """The same by somebody who does not agree."""
        return self._come_back(url, {"action": "deny"})

    def _come_back(self, url: str, form: Mapping[str, str]) -> dict[str, str]:
        answer = httpx.post(url, data=dict(form), trust_env=False)
        assert answer.status_code == 302, f"{answer.status_code}: {answer.text[:500]}"
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query, keep_blank_values=True))


@contextmanager
def oidc_server() -> Iterator[OidcServer]:
    """A provider for tests."""
    with server_folder("oidc") as folder:
        port = free_port()
        issuer = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "oidc_provider_mock", "--host", "127.0.0.1", "--port", str(port)]
        process = ServerProcess(command, folder, end=signal.SIGTERM, answers=lambda: _answers(issuer), ours=True)
        with running(process):
            yield OidcServer(issuer, process)


def _answers(issuer: str) -> bool:
    try:
        found = httpx.get(f"{issuer}/.well-known/openid-configuration", timeout=2, trust_env=False)
    except httpx.TransportError:
        return False
    return found.status_code == 200 and json.loads(found.text)["issuer"] == issuer

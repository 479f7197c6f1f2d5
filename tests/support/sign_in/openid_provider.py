"""An OpenID Connect test provider, honest and strict until a test makes it lie."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from tests.support.loopback_http import LoopbackServer, Seen, reply

NOW_S = 1_800_000_000
"""Time of these tests."""

CLIENT_ID = "node"
CLIENT_SECRET = "a secret: with%signs+ and spaces"

Route = Callable[[Seen], bytes | Iterator[bytes]]


@cache
def rsa_key(kid: str = "rsa-1", bits: int = 2048) -> RSAKey:
    """A key that is made once, of any length."""
    private = rsa.generate_private_key(65537, bits)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return RSAKey.import_key(private.private_bytes(*form), {"kid": kid, "use": "sig"})


@cache
def ec_key(kid: str = "ec-1") -> ECKey:
    """The same on P-256."""
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


@cache
def ed_key(kid: str = "ed-1") -> OKPKey:
    """The same on Ed25519."""
    return OKPKey.generate_key("Ed25519", {"kid": kid, "use": "sig"})


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def raw_token(header: Mapping[str, object], claims: object, signature: Callable[[bytes], bytes]) -> str:
    """A token made by hand, for what no library signs."""
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{base64url(signature(signed.encode()))}"


def signed(claims: Mapping[str, object], key: Key, *, alg: str = "RS256", **header: object) -> str:
    """A token as a provider makes it."""
    return jwt.encode({"alg": alg, "kid": key.kid, **header}, dict(claims), key, algorithms=[alg])


def json_reply(document: object, status: int = 200) -> bytes:
    """An answer of JSON."""
    return reply(status, json.dumps(document).encode(), {"Content-Type": "application/json"})


@dataclass
class Asked:
    """What a code stands for."""

    nonce: str
    challenge: str
    redirect_uri: str
    subject: str


@dataclass
class FakeProvider:
    """Settings of a test: `routes` by path, `metadata`, `claims`, and `sign`.

    `metadata` and `claims` by member (None: leave it out), `sign` as a whole.
    """

    keys: list[Key] = field(default_factory=lambda: [rsa_key()])
    routes: dict[str, Route] = field(default_factory=dict)
    metadata: dict[str, object] = field(default_factory=dict)
    claims: dict[str, object] = field(default_factory=dict)
    sign: Callable[[dict[str, object]], str] = field(default=lambda claims: signed(claims, rsa_key()))
    userinfo: dict[str, object] | None = None
    client_secret: str | None = CLIENT_SECRET
    secret_in_body: bool = False
    path: str = ""
    host: str = "127.0.0.1"
    server: LoopbackServer = field(init=False)
    codes: dict[str, Asked] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = LoopbackServer(self._respond, host=self.host)

    @property
    def issuer(self) -> str:
        return self.server.url(self.path)

    def sign_in(self, url: str, subject: str = "alice", **parameters: str) -> dict[str, str]:
        """What a browser does at `url`.

        The parameters with which it comes back, `parameters` among them.
        """
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["client_id"] == CLIENT_ID
        code = f"code-{len(self.codes)}-of-{self.server.port}"
        self.codes[code] = Asked(asked["nonce"], asked["code_challenge"], asked["redirect_uri"], subject)
        return {"code": code, "state": asked["state"], **parameters}

    def asked_for(self, path: str) -> list[Seen]:
        """Requests of a path."""
        whole = self.path.rstrip("/") + path
        return [seen for seen in self.server.seen if seen.target.partition("?")[0] == whole]

    def _respond(self, seen: Seen) -> bytes | Iterator[bytes]:
        path = seen.target.partition("?")[0].removeprefix(self.path.rstrip("/"))
        if path in self.routes:
            return self.routes[path](seen)
        match path:
            case "/.well-known/openid-configuration":
                return json_reply(self.honest_metadata())
            case "/jwks":
                return json_reply({"keys": [key.as_dict(private=False) for key in self.keys]})
            case "/token":
                return self._token(seen)
            case "/userinfo" if (
                self.userinfo is not None and seen.headers.get("authorization") == "Bearer an-access-token"
            ):
                return json_reply(self.userinfo)
            case _:
                return reply(404)

    def honest_metadata(self) -> dict[str, object]:
        """What it says of itself, with the test's changes."""
        base = self.issuer.rstrip("/")
        told: dict[str, object] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/jwks",
            "userinfo_endpoint": f"{base}/userinfo",
            "token_endpoint_auth_methods_supported": [
                "client_secret_post" if self.secret_in_body else "client_secret_basic"
            ],
            **self.metadata,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _token(self, seen: Seen) -> bytes:
        form = dict(parse_qsl(seen.body.decode(), strict_parsing=True, keep_blank_values=True))
        if not self._knows_client(seen, form):
            return self._refuse("invalid_client", 401)
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or form["redirect_uri"] != asked.redirect_uri or form["grant_type"] != "authorization_code":
            return self._refuse("invalid_grant", 400)
        if base64url(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked.challenge:
            return self._refuse("invalid_grant", 400)
        told: dict[str, object] = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": asked.subject,
            "nonce": asked.nonce,
            "iat": NOW_S - 1,
            "exp": NOW_S + 300,
            "email": f"{asked.subject}@example.org",
            "email_verified": True,
            **self.claims,
        }
        claims = {name: value for name, value in told.items() if value is not None}
        return json_reply({"access_token": "an-access-token", "token_type": "Bearer", "id_token": self.sign(claims)})

    def _knows_client(self, seen: Seen, form: dict[str, str]) -> bool:
        authorization: Any = seen.headers.get("authorization")
        if self.client_secret is None:
            return authorization is None and form.get("client_id") == CLIENT_ID and "client_secret" not in form
        if self.secret_in_body:
            return authorization is None and (form.get("client_id"), form.get("client_secret")) == (
                CLIENT_ID,
                self.client_secret,
            )
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ":"
        given = tuple(unquote_plus(part) for part in pair.split(":"))
        return given == (CLIENT_ID, self.client_secret) and not {"client_id", "client_secret"} & form.keys()

    def _refuse(self, code: str, status: int) -> bytes:
        self.refusals.append(code)
        return json_reply({"error": code, "error_description": "because"}, status)

"""One OpenID Connect provider over HTTP: its metadata, keys, tokens and claims.

Owns requests and what is remembered of them. Invariants: every request passes a guarded client of this provider alone, which may reach
the issuer's own host and port because the operator named it, and else what everybody may; redirects are not followed; metadata that
speak for another issuer are not taken, nor endpoints without TLS of an issuer with TLS. Whatever fails here is Determinate: nobody was
signed in. Source: OpenID Connect Discovery 1.0; RFC 6749; RFC 9207.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote_plus, urlencode

from joserfc.jwk import KeySet

from odfabric.adapters.http.egress import Answer, Egress, SizeLimit
from odfabric.adapters.http.id_token import USUAL_ALGORITHMS, read_keys
from odfabric.adapters.http.url import HttpUrl, parse_http_url
from odfabric.errors import (
    AccessDenied,
    Determinate,
    External,
    InvalidRequest,
    LimitExceeded,
    Place,
    WrongCredentials,
)

_log = logging.getLogger(__name__)

DISCOVERY_PATH = "/.well-known/openid-configuration"
TOKEN_CHARACTERS_MAX = 16 * 1024
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcProvider:
    """What the operator says of a provider.

    Without a secret this node is a public client.
    """

    name: str
    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    label: str = ""
    allow_sign_up: bool = False
    allowed_domains: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = USUAL_ALGORITHMS


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcLimits:
    """Limits of all providers; seconds, bytes."""

    request_s_max: float = 10.0
    answer_bytes_max: int = 1024 * 1024
    metadata_s: float = 3600.0
    """How long metadata and keys are remembered."""
    clock_leeway_s: int = 60
    sign_in_s_max: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a provider says of itself.

    `names_issuer`: its answers carry the parameter `iss`.
    """

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    secret_in_body: bool
    names_issuer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a code was exchanged for."""

    id_token: str = field(repr=False)
    access_token: str | None = field(repr=False)


class OidcClient:
    """Safe for use by many threads. `seconds` is a clock that never goes back."""

    def __init__(
        self, provider: OidcProvider, egress: Egress, limits: OidcLimits, *, seconds: Callable[[], float]
    ) -> None:
        self.provider = provider
        self._issuer = issuer_url(provider.issuer)
        self._egress = egress
        self._limits = limits
        self._limit = SizeLimit(name="oidc_answer_bytes_max", bytes_max=limits.answer_bytes_max)
        self._seconds = seconds
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def close(self) -> None:
        """Close connections."""
        self._egress.close()

    def metadata(self) -> Metadata:
        """Its metadata, at most `metadata_s` old. Raises Determinate."""
        known = self._metadata
        if known is None or self._seconds() - known[0] >= self._limits.metadata_s:
            fetched_at = self._seconds()
            url = self.provider.issuer.rstrip("/") + DISCOVERY_PATH
            known = self._metadata = (fetched_at, self._read_metadata(self._get(url)))
        return known[1]

    def keys(self, *, fresh: bool = False) -> KeySet:
        """Its keys, at most `metadata_s` old, or just fetched. Raises Determinate."""
        known = self._keys
        if fresh or known is None or self._seconds() - known[0] >= self._limits.metadata_s:
            fetched_at = self._seconds()
            document = self._get(self.metadata().jwks_uri)
            try:
                known = self._keys = (fetched_at, read_keys(document))
            except ValueError as error:
                raise self._away(f"its keys cannot be read: {error}") from None
        return known[1]

    def redeem(self, code: str, *, verifier: str, redirect_uri: str) -> Tokens:
        """Exchange a code for tokens, once.

        Raises WrongCredentials for a code that does not count any more, Determinate.
        """
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        status, answer = self._post_form(self.metadata().token_endpoint, fields)
        if status != 200:
            raise self._refused_code(status, answer)
        id_token, access_token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(id_token, str) or len(id_token) > TOKEN_CHARACTERS_MAX:
            raise self._away("it answers without an ID token", hint="its client must be one of OpenID Connect")
        usable = isinstance(access_token, str) and len(access_token) <= TOKEN_CHARACTERS_MAX
        return Tokens(id_token=id_token, access_token=str(access_token) if usable else None)

    def userinfo(self, access_token: str) -> dict[str, object]:
        """Claims that are not in the ID token; empty if it gives none. Raises Determinate."""
        url = self.metadata().userinfo_endpoint
        if url is None or _BEARER.fullmatch(access_token) is None:
            return {}
        return self._get(url, authorization=f"Bearer {access_token}")

    def _read_metadata(self, document: Mapping[str, object]) -> Metadata:
        if document.get("issuer") != self.provider.issuer:
            raise self._away("its metadata speak for another issuer", hint="issuer must be written exactly as there")
        methods = document.get("token_endpoint_auth_methods_supported")
        in_body = isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods
        has_userinfo = document.get("userinfo_endpoint") is not None
        return Metadata(
            # The browser goes there, which may reach other places than this node.
            authorization_endpoint=self._endpoint(document, "authorization_endpoint", read=parse_http_url),
            token_endpoint=self._endpoint(document, "token_endpoint", read=self._egress.check),
            jwks_uri=self._endpoint(document, "jwks_uri", read=self._egress.check),
            userinfo_endpoint=self._endpoint(document, "userinfo_endpoint", read=self._egress.check)
            if has_userinfo
            else None,
            secret_in_body=in_body,
            names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, document: Mapping[str, object], name: str, *, read: Callable[[str], HttpUrl]) -> str:
        value = document.get(name)
        if not isinstance(value, str):
            raise self._away(f"its metadata have no {name}")
        with self._failures():
            url = read(value)
        if url.scheme != "https" and self._issuer.scheme == "https":
            raise self._away(f"its {name} is without TLS")
        return str(url)

    def _get(self, url: str, *, authorization: str | None = None) -> dict[str, object]:
        headers = [("Accept", "application/json")]
        if authorization is not None:
            headers.append(("Authorization", authorization))
        with self._failures(), self._egress.get(url, headers=headers, limit=self._limit) as answer:
            body = answer.read() if answer.status == 200 else b""
        return self._json(answer, body)

    def _post_form(self, url: str, fields: dict[str, str]) -> tuple[int, dict[str, object]]:
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        secret, client_id = self.provider.client_secret, self.provider.client_id
        if secret is None:
            fields = {**fields, "client_id": client_id}
        elif self.metadata().secret_in_body:
            fields = {**fields, "client_id": client_id, "client_secret": secret}
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode("ascii")
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
        form, total_s_max = urlencode(fields).encode("ascii"), self._limits.request_s_max
        with (
            self._failures(),
            self._egress.exchange(
                url, headers=headers, body=form, total_s_max=total_s_max, limit=self._limit
            ) as answer,
        ):
            body = answer.read()
        return answer.status, self._json(answer, body)

    def _json(self, answer: Answer, body: bytes) -> dict[str, object]:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._away(f"{answer.url.shown} answered with status {answer.status} and no JSON object")
        return document

    def _refused_code(self, status: int, answer: Mapping[str, object]) -> Determinate | WrongCredentials:
        code = error_code(answer.get("error"))
        if code == "invalid_grant":
            return WrongCredentials(
                f"{self.provider.label} does not take this answer any more: it was used before or is too old",
                hint="begin to sign in again, and do not reload the page on the way",
            )
        return self._away(f"it refuses this node with status {status}: {code}", hint=_OPERATOR)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Errors of the guarded client are the provider's failure, not the user's."""
        try:
            yield
        except (AccessDenied, External, InvalidRequest, LimitExceeded) as error:
            redirected = isinstance(error, LimitExceeded) and error.limit == "egress_redirects_max"
            raise self._away(error.message, hint=_NO_REDIRECTS if redirected else error.hint) from None

    def _away(self, reason: str, *, hint: str | None = None) -> Determinate:
        _log.warning("identity provider %s: %s", self.provider.name, reason)
        return Determinate(f"signing in by {self.provider.label} is not possible: {reason}", hint=hint or _LATER)


_NO_REDIRECTS = "redirects are not followed: the issuer has to be the address that answers"
_LATER = "try again in a while, or sign in another way"
_OPERATOR = "the operator of this node has to compare client_id, client_secret and redirect URI with those there"


def error_code(value: object) -> str:
    """An OAuth error code as it may be shown: words of lower case."""
    return value if isinstance(value, str) and _ERROR_CODE.fullmatch(value) else "without a known reason"


def issuer_url(issuer: str) -> HttpUrl:
    """The issuer as a URL: with TLS, or on this machine. Raises InvalidRequest."""
    try:
        url = parse_http_url(issuer)
    except InvalidRequest as error:
        raise InvalidRequest(f"issuer: {error.message}", place=_SETTING, hint=error.hint) from None
    if set(issuer) & set("?#"):
        raise InvalidRequest("an issuer has no query and no fragment", place=_SETTING)
    if url.scheme != "https" and not _is_loopback(url.host):
        raise InvalidRequest(f"issuer {issuer} is without TLS", place=_SETTING, hint="https, or http on this machine")
    return url


_SETTING = Place(field="ODF_OIDC_PROVIDERS")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

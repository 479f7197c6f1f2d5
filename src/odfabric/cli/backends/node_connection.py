"""A connection from the command line to a node.

Requests, patience while the node is away, problem documents as errors.

Owns the address of a node and its origin. The address was given by the user of this very command, so no guard stands before it.
Invariant: the token goes to that origin alone; redirects are not followed, and of the links in answers only their parameters are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from ssl import PROTOCOL_TLS_CLIENT, SSLContext

import httpx

from odfabric.cli.backends.backend import JobFailed
from odfabric.errors import Determinate, Indeterminate, InvalidRequest, Place

CONNECT_S_MAX = 10.0
ANSWER_S_MAX = 120.0
PAGE_ROWS = 1000
LOOK_EVERY_S_MAX = 0.5
AWAY_S_MAX = 30.0
"""How long a node that has answered before may be away, as when its service is started again."""
AWAY_STATUSES = (502, 503, 504)

_SIGN_IN_HELPS = ("unauthenticated", "token-expired", "token-revoked", "token-unknown")


class NodeConnection:
    """Requests to one node with one token, or none."""

    def __init__(self, url: str, *, token: str | None, field: str = "--node") -> None:
        """`field` names the option of the address in errors.

        Raises InvalidRequest for what is no address of a node.
        """
        address = _address(url, field)
        self.origin = _origin(address)
        self.has_token = bool(token)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX)
        # To read the authorities takes 30 ms, which an address without TLS does not need: there nobody is trusted.
        verify = True if address.scheme == "https" else SSLContext(PROTOCOL_TLS_CLIENT)
        self.http = httpx.Client(base_url=address, headers=headers, timeout=timeout, trust_env=False, verify=verify)
        self._has_answered = False

    def close(self) -> None:
        """End the connections."""
        self.http.close()

    def send(self, method: str, path: str, **arguments: object) -> httpx.Response:
        """The answer, if it is a success.

        What only reads is asked again while a node that was there is away for a while.
        """
        return self.patiently(lambda: self.attempt(method, path, **arguments), repeats=method == "GET")

    def json(self, method: str, path: str, **arguments: object) -> dict[str, object]:
        """The JSON object of a successful answer.

        Raises InvalidRequest for something else: the address is not a node's.
        """
        answer = self.send(method, path, **arguments)
        try:
            value = answer.json()
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise InvalidRequest(f"{self.origin} does not answer as a node does", hint="look at the address")
        return value

    def pages(self, path: str, member: str, params: Mapping[str, str]) -> list[dict[str, object]]:
        """All entries of a listing, page by page."""
        found: list[dict[str, object]] = []
        asked = {"limit": str(PAGE_ROWS), **params}
        while True:
            answer = self.send("GET", path, params=asked)
            found += answer.json()[member]
            # A page may be short because entries went away meanwhile: only the link says whether there is another one.
            following = answer.links.get("next")
            if following is None:
                return found
            asked["after"] = httpx.URL(following["url"]).params["after"]

    def patiently(self, attempt: Callable[[], httpx.Response], *, repeats: bool) -> httpx.Response:
        """What `attempt` answers.

        `repeats` says that it may be made again although it may have had an effect.
        """
        end = time.monotonic() + AWAY_S_MAX
        while True:
            try:
                answer = attempt()
            except (Determinate, Indeterminate) as error:
                again = repeats or isinstance(error, Determinate)
                if not (again and self._has_answered and time.monotonic() < end):
                    raise
                time.sleep(LOOK_EVERY_S_MAX)
                continue
            self._has_answered = True
            return answer

    def attempt(self, method: str, path: str, **arguments: object) -> httpx.Response:
        """The answer, if it is a success.

        Raises JobFailed with the node's problem, Determinate or Indeterminate.
        """
        answer = self.ask(method, path, **arguments)
        if answer.is_success:
            return answer
        raise JobFailed(self.problem(answer))

    def ask(self, method: str, path: str, **arguments: object) -> httpx.Response:
        """Whatever a node that is not away answers. Raises Determinate or Indeterminate."""
        try:
            answer = self.http.request(method, path, **arguments)  # type: ignore[arg-type]
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Determinate(f"the node does not answer: {error}", hint="is it running?") from error
        except httpx.HTTPError as error:
            if method == "GET":
                raise Determinate(f"the node's answer broke off: {error}") from error
            raise Indeterminate(
                f"the node's answer broke off: {error}",
                hint="look before you repeat it; a push with --idempotency-key can be repeated safely",
            ) from error
        if answer.status_code in AWAY_STATUSES:
            document = _document(answer)
            message, hint = str(document.get("message")), "try again later"
            sure = method == "GET" or document.get("code") == Determinate.code
            raise (Determinate if sure else Indeterminate)(message, hint=hint)
        return answer

    def problem(self, answer: httpx.Response) -> dict[str, object]:
        """What the node says is wrong, with what to do at a command line."""
        document, login = _document(answer), f"`odf login {self.origin}`"
        code, hint = document.get("code"), str(document.get("hint", ""))
        if answer.status_code == 401 and code in _SIGN_IN_HELPS:
            return _with_hint(document, f"{login} signs you in")
        if answer.status_code == 404 and not self.has_token and "Authorization" in hint:
            return _with_hint(document, f"if it is yours: {login}")
        if answer.has_redirect_location:
            return _with_hint(document, f"give the address to which it points: {answer.headers['location']}")
        return document


def origin_of(url: str, *, field: str = "--node") -> str:
    """Scheme, host and port of a node's address, as every spelling of it has them.

    Raises InvalidRequest.
    """
    return _origin(_address(url, field))


def _origin(address: httpx.URL) -> str:
    host = address.raw_host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return f"{address.scheme}://{shown}" + (f":{address.port}" if address.port is not None else "")


def _address(url: str, field: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        place = Place(field=field)
        raise InvalidRequest(f"not a node's address: {url}", place=place, hint="e.g. http://127.0.0.1:8080")
    if address.userinfo:
        raise InvalidRequest("the address has a name or password in it", place=Place(field=field), hint="use a token")
    return address


def _document(answer: httpx.Response) -> dict[str, object]:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    return {"code": "http-error", "message": f"{answer.status_code} {answer.reason_phrase}"}


def _with_hint(document: Mapping[str, object], hint: str) -> dict[str, object]:
    """A problem with another hint, which stands at the end of its detail too."""
    message, before = str(document.get("message")), document.get("hint")
    detail = str(document.get("detail") or message)
    kept = detail.removesuffix(f" ({before})") if before else detail
    return {**document, "hint": hint, "detail": f"{kept} ({hint})"}

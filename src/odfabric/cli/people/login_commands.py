"""Verbs of this user's own logins: login, logout, whoami."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.context import CommandContext, context_of
from odfabric.cli.output import Output
from odfabric.cli.people.secret_input import asked_secret, read_secret
from odfabric.errors import (
    AccountSuspended,
    InvalidRequest,
    NotFound,
    Place,
    TokenExpired,
    TokenRevoked,
    TokenUnknown,
    Unauthenticated,
)

if TYPE_CHECKING:
    from odfabric.cli.backends.node_connection import NodeConnection
    from odfabric.cli.backends.people.credentials import Login

CLIENT_CHARACTERS_MAX = 100
STDIN = "-"

URL = typer.Argument(
    "", help="Address of the node; default: --node, or the only one that you are logged in to", show_default=False
)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    verbs: tuple[tuple[str, Callable[..., object]], ...] = (("login", login), ("logout", logout), ("whoami", whoami))
    for name, verb in verbs:
        app.command(name)(verb)


def login(
    context: typer.Context,
    url: str = URL,
    open_browser: bool = typer.Option(False, "--open", help="Open the page in a browser"),
    password: bool = typer.Option(False, "--password", help="Sign in by name and password instead of a browser"),
    user: str = typer.Option("", "--user", help="With --password: the account's name"),
    check: bool = typer.Option(False, "--check", help="Only tell whether you are logged in: exit code 0 or 1"),
) -> None:
    """Sign in to a node: shows an address and a code to approve in a browser.

    With --token TOKEN (- reads it from standard input) an access token is kept instead. The login is kept for later commands on this node.
    """
    given = context_of(context)
    by_token = given.token_typed and not check
    ways = {"--check": check, "--password": password, "--open": open_browser, "--token": by_token}
    if sum(ways.values()) > 1:
        raise typer.BadParameter("choose one of them", param_hint=" / ".join(name for name in ways if ways[name]))
    address = _address(given, url)
    if check:
        _check(given, address)
        return
    output = given.output
    with _connected(address, token=None) as connection:
        origin = connection.origin
        if urlsplit(origin).scheme == "http" and not _on_this_machine(origin):
            output.say(f"odf: warning: {origin} is not encrypted: whoever sees the traffic can use the token")
        token = given.token if by_token else None
        if token == STDIN:
            token = read_secret("a token", option="--token")
        elif token is None and password:
            token = _by_password(connection, user)
        elif token is None:
            token = _by_browser(connection, output, open_browser=open_browser)
    with _connected(address, token=token) as connection:
        account = str(connection.json("GET", "/platform/token/validate")["accountName"])
    from odfabric.cli.backends.people.credentials import Login

    given.credentials.put(origin, Login(token=token, account=account))
    output.result({"url": origin, "account": account}, f"logged in to {origin} as {account}")
    if given.token is not None and not given.token_typed:
        output.say("ODF_TOKEN is set: other commands use it instead of this login")


def logout(
    context: typer.Context,
    url: str = URL,
    forget: bool = typer.Option(False, "--forget", help="Do not tell the node: the token goes on counting elsewhere"),
) -> None:
    """Revoke the token of a login and forget it."""
    given = context_of(context)
    address = _address(given, url)
    credentials = given.credentials
    from odfabric.cli.backends.node_connection import origin_of

    origin = origin_of(address, field="URL")
    found = credentials.get(origin)
    if found is None:
        raise _no_login(origin)
    said = "; its token goes on counting" if forget else _revoke(address, found)
    credentials.remove(origin)
    given.output.result({"url": origin, "account": found.account, "revoked": not said}, f"logged out of {origin}{said}")


def whoami(context: typer.Context, url: str = URL) -> None:
    """Who one is on a node: account, organisations, and what the token may do."""
    given = context_of(context)
    address = _address(given, url)
    token = _token(given, address)
    with _connected(address, token=token) as connection:
        myself = connection.json("GET", "/accounts/me")
        origin = connection.origin
    output = given.output
    output.result({"url": origin, **myself}, f"{myself['accountName']} on {origin}{_standing(myself)}")


def _check(given: CommandContext, address: str) -> None:
    """Raises Unauthenticated without a login, JobFailed for a bad one, Determinate."""
    token = _token(given, address)
    with _connected(address, token=token) as connection:
        origin = connection.origin
        try:
            valid = connection.json("GET", "/platform/token/validate")
        except JobFailed as failed:
            document = failed.document
            hint = f"`odf login {origin}` signs you in again"
            raise JobFailed({**document, "hint": hint, "detail": f"{document.get('message')} ({hint})"}) from None
    account = valid["accountName"]
    given.output.result({"url": origin, "account": account}, f"logged in to {origin} as {account}")


def _token(given: CommandContext, address: str) -> str:
    """The token that was given, else that of the login. Raises Unauthenticated."""
    from odfabric.cli.backends.node_connection import origin_of

    if given.token is not None:
        return given.token
    origin = origin_of(address, field="URL")
    found = given.credentials.get(origin)
    if found is None:
        raise _no_login(origin)
    return found.token


def _no_login(origin: str) -> Unauthenticated:
    return Unauthenticated(f"you are not logged in to {origin}", hint=f"`odf login {origin}` signs you in")


def _address(given: CommandContext, url: str) -> str:
    """Which node is meant.

    Raises InvalidRequest or Unauthenticated if it cannot be reported.
    """
    if url or given.node:
        return url or str(given.node)
    logins = sorted(given.credentials.all())
    if not logins:
        raise Unauthenticated("you are not logged in to any node", hint="`odf login URL` signs you in")
    if len(logins) > 1:
        raise InvalidRequest("you are logged in to several nodes", place=Place(field="URL"), hint=", ".join(logins))
    return logins[0]


def _by_browser(connection: NodeConnection, output: Output, *, open_browser: bool) -> str:
    import time

    from odfabric.cli.people.device_flow import start_device, wait_for_approval

    client = _client_name()
    started = start_device(connection, client=client)
    output.say(f"Open {started.address_with_code}\nand approve the code {started.user_code}")
    if open_browser:
        _open(started.address_with_code, output)
    output.progress("waiting for the approval")
    try:
        return wait_for_approval(connection, started, client=client, sleep=time.sleep, seconds=time.monotonic)
    finally:
        output.clear()


def _by_password(connection: NodeConnection, user: str) -> str:
    import json

    if not user and not sys.stdin.isatty():
        raise InvalidRequest("whose password it is must be said", place=Place(field="--user"), hint="--user NAME")
    name = user or typer.prompt("Account", err=True)
    credentials = json.dumps({"login": name, "password": asked_secret(f"Password of {name}")})
    body = {"loginMethod": "password", "loginCredentialsJson": credentials}
    return str(connection.json("POST", "/platform/login", json=body)["accessToken"])


def _revoke(address: str, login: Login) -> str:
    """Revoke the token of a login; what is to be said if it could not be."""
    with _connected(address, token=login.token) as connection:
        try:
            connection.send("DELETE", "/session")
        except JobFailed as failed:
            match failed.document.get("code"):
                case NotFound.code:
                    return "; its token goes on counting: it is the one with which the node was started"
                case TokenExpired.code | TokenRevoked.code | TokenUnknown.code | AccountSuspended.code:
                    return "; its token did not count any more"
                case _:
                    raise
    return ""


@contextmanager
def _connected(address: str, *, token: str | None) -> Iterator[NodeConnection]:
    from odfabric.cli.backends.node_connection import NodeConnection

    with closing(NodeConnection(address, token=token, field="URL")) as connection:
        yield connection


def _client_name() -> str:
    """What the person who approves reads of this command, and the name of its token."""
    import socket

    name = f"odf on {socket.gethostname()}"[:CLIENT_CHARACTERS_MAX]
    return name if name.isprintable() else "odf"


def _open(address: str, output: Output) -> None:
    """Open a page; the node says which, so nothing but a web page is opened."""
    import webbrowser

    if urlsplit(address).scheme not in ("http", "https") or not webbrowser.open(address):
        output.say("no browser could be opened here: open the address yourself")


def _on_this_machine(address: str) -> bool:
    import ipaddress

    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _standing(myself: Mapping[str, object]) -> str:
    organisations, scopes, account = myself.get("organisations"), myself.get("scopes"), myself.get("account")
    lines = [f"scopes: {', '.join(map(str, scopes))}"] if isinstance(scopes, list) else []
    if isinstance(organisations, list) and organisations:
        lines.append("organisations: " + ", ".join(f"{one['name']} ({one['role']})" for one in organisations))
    if isinstance(account, dict) and account.get("isAdmin"):
        lines.append("admin of the node")
    return "".join(f"\n  {line}" for line in lines)

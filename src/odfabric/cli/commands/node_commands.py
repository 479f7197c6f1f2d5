"""Verbs that run things: up, demo, docs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from odfabric.cli.build_docs import docs
from odfabric.cli.context import context_of
from odfabric.cli.program import program
from odfabric.errors import InvalidRequest, Place

if TYPE_CHECKING:
    from odfabric.wiring import Node

DEMO_FOLDER = "odf-demo"
"""Where a demo is kept unless another folder is named."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("up")(up)
    app.command("demo")(demo)
    app.command("docs")(docs)
    # Handled before options are read (app.main); listed here for the help.
    app.command("test", help="Run every check of this repository; arguments go to pytest.")(_listed_only)


def up(
    context: typer.Context,
    host: str = typer.Option("127.0.0.1", help="Address to listen on"),
    port: int = typer.Option(8080, min=0, max=65535, help="Port to listen on; 0 takes a free one"),
    ready_file: str = typer.Option(
        "", help="File that gets {url, token, engine, pid, setup, console} as JSON once the node serves"
    ),
    poll_folder: str = typer.Option("", help="Folder below which polling sources may read files"),
    egress_allow: list[str] = typer.Option([], help="Non-public host:port or network that requests may reach"),
    anonymous_read: bool = typer.Option(False, help="Let requests without a token read"),
    open_console: bool = typer.Option(False, "--open", help="Open the console in the browser once the node serves"),
) -> None:
    """Run an embedded node in the foreground; Ctrl-C ends all of it."""
    from odfabric.cli.supervise import Supervisor
    from odfabric.settings import read_settings
    from odfabric.wiring import open_node

    given = context_of(context)
    output = given.output
    asked: dict[str, object] = {"workspace": Path(given.workspace).absolute()}
    if poll_folder:
        asked["poll_folder"] = _folder(Path(poll_folder).absolute(), option="--poll-folder")
    if egress_allow:
        asked["egress_allow"] = tuple(egress_allow)
    if anonymous_read:
        asked["anonymous_read"] = True
    if ready_file:
        _folder(Path(ready_file).absolute().parent, option="--ready-file")
        # One of an earlier run would tell of a node that is gone.
        Path(ready_file).unlink(missing_ok=True)
    settings = read_settings(**asked)
    supervisor = Supervisor(settings, host=host, port=port, say=output.say)
    supervisor.heed_signals()
    with supervisor.running() as node:
        with open_node(settings) as own:
            setup, console = first_admin_link(own, node.url), console_link(own, node.url)
        told = {**node.to_value(), "setup": setup, "console": console}
        if ready_file:
            path = Path(ready_file)
            pending = path.with_name(f".{path.name}.pending")
            pending.touch(mode=0o600)
            pending.write_text(json.dumps(told))
            pending.rename(path)
        shown = (
            f"  open:   {console}\n          (the console, signed in as you; works once, for minutes)\n"
            if console
            else ""
        )
        invited = f"  setup:  {setup}\n          (makes the first admin's account, works once)\n" if setup else ""
        output.result(
            told,
            f"odfabric serves at {node.url}\n"
            f"{shown}"
            f"  API:    {node.url}/docs  ({node.url}/openapi.json)\n"
            f"  token:  {node.token}\n"
            f"{invited}"
            f"  engine: {node.engine}\n"
            f"  data:   {settings.workspace}\n"
            "Ctrl-C ends it.",
        )
        if open_console and console:
            import webbrowser

            webbrowser.open(console)
        code = supervisor.wait()
    raise typer.Exit(code)


def demo(
    context: typer.Context,
    keep: bool = typer.Option(
        False, "--keep", help="Keep the demo's workspaces; at a terminal its node serves on for you to look at"
    ),
    folder: str = typer.Option(DEMO_FOLDER, help="Where --keep keeps them: a folder of its own"),
    polled: str = typer.Option("", help="With --node: the folder from which that node may poll"),
    short: bool = typer.Option(False, "--short", help="One month of flights: no pushed files, no second node"),
) -> None:
    """Show everything on real data, in a few minutes.

    Ingests, derives, subscribes, verifies and shares; leaves nothing running. With --node it works on a node that runs already,
    which must have none of its datasets and may send webhooks to this machine.
    """
    from odfabric.cli.demo.extent import SHORT, WHOLE
    from odfabric.cli.demo.script import DemoNode, run_demo

    given = context_of(context)
    node = None
    if given.node is not None:
        polled_folder = _folder(Path(polled).absolute(), option="--polled") if polled else None
        if polled_folder is None or given.token is None:
            raise InvalidRequest(
                "a demo on a node needs its token and the folder that it polls", hint="--token, --polled"
            )
        node = DemoNode(url=given.node.rstrip("/"), token=given.token, polled=polled_folder)
    kept = Path(folder).absolute() if keep else None
    if kept is not None and kept.is_dir() and any(kept.iterdir()):
        raise InvalidRequest(
            f"{kept} has files already",
            hint=f"another --folder; a demo that was kept there is shown by `ODF_WORKSPACE={folder}/first {program()} up --open`",
        )
    # Nobody would end a node that serves on for a program.
    console = console_link if sys.stdout.isatty() and not given.output.as_json else None
    raise typer.Exit(run_demo(given.output, SHORT if short else WHOLE, keep=kept, node=node, console=console))


def first_admin_link(node: Node, url: str) -> str | None:
    """The link by which the first admin makes an account, while there is none.

    One of an earlier start is worth nothing then.
    """
    from odfabric.cli.backends.node_connection import origin_of
    from odfabric.usecases.people.invitations import first_admin
    from odfabric.usecases.people.values import invitation_url

    issued = first_admin(ports=node.people)
    return invitation_url(origin_of(node.settings.public_url or url), issued.code) if issued else None


def console_link(node: Node, url: str) -> str | None:
    """Show the link that opens the console without a password.

    Only of a node that only this machine reaches.
    """
    from odfabric.usecases.people.opening_link import issue_opening_link

    if node.settings.public_url is not None or urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    code = issue_opening_link(ports=node.people)
    return f"{url}/-/open?code={code}" if code else None


def _folder(path: Path, *, option: str) -> Path:
    if not path.is_dir():
        raise InvalidRequest(f"there is no folder {path}", place=Place(field=option), hint="make it first")
    return path


def _listed_only() -> None:
    raise AssertionError("the verb `test` never gets here")

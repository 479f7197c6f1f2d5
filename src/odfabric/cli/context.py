"""What the options before a verb say, and the backend that they choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from odfabric.cli.backend import Backend
from odfabric.cli.output import Output
from odfabric.errors import NotFound

GLOBAL_OPTIONS = ("--workspace", "--node", "--token", "--output", "-o")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Options of every verb."""

    workspace: str
    node: str | None
    token: str | None
    as_json: bool

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(as_json=self.as_json)


def context_of(context: typer.Context) -> CommandContext:
    """The options that came with the command."""
    found: CommandContext = context.obj
    return found


@contextmanager
def backend_of(context: CommandContext, output: Output) -> Iterator[Backend]:
    """The node that was named, else the workspace. Raises NotFound for a folder that is no workspace."""
    try:
        with _backend(context, output) as backend:
            yield backend
    finally:
        output.clear()


@contextmanager
def _backend(context: CommandContext, output: Output) -> Iterator[Backend]:
    def listen(progress: Mapping[str, object]) -> None:
        done, total = progress.get("done"), progress.get("total")
        output.progress(f"{progress.get('stage', 'waiting')}" + (f" {done}/{total}" if total else ""))

    if context.node is not None:
        from odfabric.cli.node_client import NodeBackend

        with closing(NodeBackend(context.node, token=context.token, account="local", listener=listen)) as node_backend:
            yield node_backend
        return
    from odfabric.cli.workspace import WorkspaceBackend
    from odfabric.settings import read_settings
    from odfabric.wiring import is_workspace, open_node

    folder = Path(context.workspace)
    # A person's own workspace reads the person's own files.
    settings = read_settings(workspace=folder.absolute(), poll_anywhere=True)
    if not is_workspace(settings):
        raise NotFound("workspace", str(folder), hint="make one with `odf init`, or name a node with --node")
    with open_node(settings) as node:
        yield WorkspaceBackend(node, listener=listen)

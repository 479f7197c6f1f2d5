"""What the options before a verb say, and the backend that they choose."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from odfabric.cli.backends.backend import Backend
from odfabric.cli.output import Output
from odfabric.cli.transfer_progress import ProgressLines
from odfabric.errors import NotFound

if TYPE_CHECKING:
    from odfabric.cli.backends.people.credentials import Credentials
    from odfabric.settings import Settings

GLOBAL_OPTIONS = ("--workspace", "--node", "--token", "--credentials", "--output", "-o")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Options of every verb.

    `token_typed`: the token stands on the command line, not in the environment.
    """

    workspace: str
    node: str | None
    token: str | None
    token_typed: bool
    credentials_file: str
    as_json: bool

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(as_json=self.as_json)

    @property
    def credentials(self) -> Credentials:
        """This user's logins."""
        from odfabric.cli.backends.people.credentials import Credentials

        return Credentials.of_user(self.credentials_file)


def context_of(context: typer.Context) -> CommandContext:
    """The options that came with the command."""
    found: CommandContext = context.obj
    return found


@contextmanager
def backend_of(context: CommandContext, output: Output, *, pulls: bool = False) -> Iterator[Backend]:
    """The node that was named, else the workspace.

    Raises NotFound for a folder that is no workspace.

    A token that was given goes before that of a login. With `pulls` a workspace uses this user's logins to copy from other nodes.
    """
    try:
        with _backend(context, output, pulls) as backend:
            yield backend
    finally:
        output.clear()


def _columns() -> int:
    return shutil.get_terminal_size().columns


@contextmanager
def _backend(context: CommandContext, output: Output, pulls: bool) -> Iterator[Backend]:
    lines = ProgressLines(columns=_columns if sys.stderr.isatty() else None)

    def listen(progress: Mapping[str, object]) -> None:
        output.progress(lines.line(progress))

    if context.node is not None:
        from odfabric.cli.backends.node_client import NodeBackend
        from odfabric.cli.backends.node_connection import origin_of

        login = context.credentials.get(origin_of(context.node)) if context.token is None else None
        token, account = (login.token, login.account) if login else (context.token, None)
        with closing(NodeBackend(context.node, token=token, account=account, listener=listen)) as node_backend:
            yield node_backend
        return
    from odfabric.cli.backends.workspace import WorkspaceBackend
    from odfabric.wiring import open_node

    settings = workspace_settings(context)
    if pulls:
        settings = _with_logins(settings, context.credentials)
    with open_node(settings) as node:
        yield WorkspaceBackend(node, listener=listen)


def workspace_settings(context: CommandContext) -> Settings:
    """Settings of the workspace.

    Raises NotFound for a folder that is none, InvalidRequest.
    """
    from odfabric.settings import read_settings
    from odfabric.wiring import is_workspace

    folder = Path(context.workspace)
    # A person's own workspace reads the person's own files.
    settings = read_settings(workspace=folder.absolute(), poll_anywhere=True, remote_s3_own_keys=True)
    if not is_workspace(settings):
        raise NotFound("workspace", str(folder), hint="make one with `odf init`, or name a node with --node")
    return settings


def _with_logins(settings: Settings, credentials: Credentials) -> Settings:
    """Settings by which this command copies from nodes where its user is logged in.

    Tokens that were set go before logins.
    """
    from pydantic import SecretStr

    logins = {origin: SecretStr(login.token) for origin, login in credentials.all().items()}
    return settings.model_copy(update={"remote_tokens": {**logins, **settings.remote_tokens}})

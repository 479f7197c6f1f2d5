"""The `odf` command: options, exit codes, and the table of verbs.

Owns how arguments become a backend and how errors become an exit code. Verbs are in the modules named `..._commands`, those about people and
rights in the folder `people`; heavy libraries are imported by the verbs that need them, so that help is instant.

Exit codes: 0 done; 1 refused or found wrong (bad input, verification with problems); 2 wrong usage of the command;
3 something outside failed (the node or engine is away); 130 interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence

import typer

from odfabric import __version__
from odfabric.cli.automation import flow_commands, variable_commands, webhook_commands
from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.commands import (
    backup_commands,
    cursor_commands,
    dataset_commands,
    engine_commands,
    history_commands,
    inspection_commands,
    key_commands,
    node_commands,
    persist_commands,
    recovery_commands,
    state_commands,
    system_commands,
    verify_commands,
)
from odfabric.cli.context import GLOBAL_OPTIONS, CommandContext
from odfabric.cli.output import WarningLines, literal
from odfabric.cli.people import (
    account_commands,
    admin_commands,
    login_commands,
    org_commands,
    share_commands,
    token_commands,
)
from odfabric.cli.provenance import why_command
from odfabric.cli.transfer import head_commands, repo_commands
from odfabric.errors import External, Indeterminate, InvalidRequest, OdfError

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_OUTSIDE = 3
EXIT_INTERRUPTED = 130

HELP = """An Open Data Fabric node: publish, derive, serve and verify datasets.

Works on a local workspace (--workspace DIR or ODF_WORKSPACE), or on a node (--node URL or ODF_NODE), as the account that
`odf login URL` has signed in, or that --token or ODF_TOKEN belongs to.
"""

app = typer.Typer(
    name="odf",
    help=HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(system_commands.app, name="system")
app.add_typer(cursor_commands.app, name="cursor")
app.add_typer(flow_commands.app, name="flow")
app.add_typer(variable_commands.app, name="variables")
app.add_typer(webhook_commands.app, name="webhook")
app.add_typer(persist_commands.app, name="persist")
app.add_typer(engine_commands.app, name="engine")
app.add_typer(account_commands.app, name="account")
app.add_typer(org_commands.app, name="org")
app.add_typer(token_commands.app, name="token")
app.add_typer(admin_commands.app, name="admin")
recovery_commands.register(system_commands.app)
key_commands.register(system_commands.app)
state_commands.register(app, system_commands.app)
dataset_commands.register(app)
verify_commands.register(app)
history_commands.register(app)
node_commands.register(app)
backup_commands.register(app)
inspection_commands.register(app)
why_command.register(app)
login_commands.register(app)
share_commands.register(app)
repo_commands.register(app)
head_commands.register(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"odf {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    workspace: str = typer.Option(".odf-workspace", envvar="ODF_WORKSPACE", help="Folder of the local workspace"),
    node: str = typer.Option("", envvar="ODF_NODE", help="Address of a node to work on instead"),
    token: str = typer.Option("", envvar="ODF_TOKEN", help="Token for the node; default: that of `odf login`"),
    credentials: str = typer.Option(
        "",
        envvar="ODF_CREDENTIALS",
        help="File of logins; default: odfabric/credentials.json in the configuration folder",
    ),
    output: str = typer.Option("text", "--output", "-o", help="text or json"),
    _: bool = typer.Option(
        False, "--version", help="Print the version and end", callback=_print_version, is_eager=True
    ),
) -> None:
    """Options that every verb takes, before or after it."""
    if output not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--output")
    source = context.get_parameter_source("token")
    context.obj = CommandContext(
        workspace=workspace,
        node=node or None,
        token=token or None,
        token_typed=source is not None and source.name == "COMMANDLINE",
        credentials_file=credentials,
        as_json=output == "json",
    )


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    if arguments[:1] == ["test"]:
        # The tests have options of their own, which are pytest's.
        from odfabric.cli.run_tests import run

        return run(list(arguments[1:]))
    library = logging.getLogger("odfabric")
    warnings = WarningLines(logging.WARNING)
    library.addHandler(warnings)
    try:
        code = _run(hoist(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INTERRUPTED
    finally:
        library.removeHandler(warnings)


def _run(hoisted: list[str]) -> int:
    as_json = asks_json(hoisted)
    try:
        code = app(hoisted, prog_name="odf", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except typer.Abort:
        return EXIT_INTERRUPTED
    except OdfError as error:
        return _refuse(error, as_json=as_json)
    except JobFailed as failed:
        return _report(dict(failed.document), as_json=as_json)
    except typer.TyperException as error:
        return _explain_usage(error, as_json=as_json)
    except ModuleNotFoundError as missing:
        return _refuse(_not_installed(missing), as_json=as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _refuse(_of_the_system(error), as_json=as_json)
    if code == EXIT_INTERRUPTED:  # that is how the parser answers Ctrl-C
        return _interrupted()
    return code if isinstance(code, int) else 0


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move options that every verb takes to the front, where they are declared once.

    What follows `--` stays.
    """
    front: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(arguments):
        given = arguments[position]
        if given == "--":
            rest += arguments[position:]
            break
        name = given.partition("=")[0]
        if name in GLOBAL_OPTIONS and "=" not in given and position + 1 < len(arguments):
            front += arguments[position : position + 2]
            position += 2
            continue
        (front if name in GLOBAL_OPTIONS or (given.startswith("-o") and len(given) > 2) else rest).append(given)
        position += 1
    return front + rest


def asks_json(hoisted: Sequence[str]) -> bool:
    """Whether the last `--output` says json.

    `hoisted` has options of every verb in front. For errors, before options are read.
    """
    chosen = ""
    position = 0
    while position < len(hoisted):
        name, _, value = hoisted[position].partition("=")
        if name.startswith("-o") and len(name) > 2:
            chosen = hoisted[position][2:].removeprefix("=")
        elif name not in GLOBAL_OPTIONS:
            break
        else:
            if not value:
                position += 1
                value = hoisted[position] if position < len(hoisted) else ""
            chosen = value if name in ("-o", "--output") else chosen
        position += 1
    return chosen == "json"


def _not_installed(missing: ModuleNotFoundError) -> InvalidRequest:
    """The package was installed without the extra that this verb needs.

    A module of our own that is missing is a bug.
    """
    if missing.name is None or missing.name.startswith("odfabric"):
        raise missing
    return InvalidRequest(
        f"this needs {missing.name}, which is not installed",
        hint='`pip install "odfabric[all]"` is a whole node; without extras `odf --node URL` is a client of one',
    )


def _of_the_system(error: OSError) -> External:
    """A full disk, a file without permission, and the like."""
    where = f"{error.filename}: " if error.filename else ""
    return Indeterminate(f"{where}{error.strerror or error}", hint="look before you repeat it")


def _refuse(error: OdfError, *, as_json: bool) -> int:
    from odfabric.usecases.jobs.problem import problem_document

    code = EXIT_OUTSIDE if isinstance(error, External) else EXIT_REFUSED
    return _report(problem_document(error), as_json=as_json, code=code)


def _interrupted() -> int:
    sys.stderr.write("odf: interrupted; what was moved or committed stays, and the same command goes on from there\n")
    return EXIT_INTERRUPTED


def _explain_usage(error: typer.TyperException, *, as_json: bool) -> int:
    # Errors of usage know how to show themselves; their class is not typer's public one.
    show: Callable[[], None] | None = getattr(error, "show", None)
    if show is not None:
        show()
    else:
        sys.stderr.write(f"odf: {literal(error.format_message())}\n")
    if as_json:
        document = {"code": "usage", "message": error.format_message()}
        sys.stdout.write(json.dumps({"error": document}, ensure_ascii=False) + "\n")
    return EXIT_USAGE


def _report(document: dict[str, object], *, as_json: bool, code: int | None = None) -> int:
    from odfabric.usecases.jobs.problem import problem_lines

    first, *more = problem_lines(document)
    if as_json:
        sys.stdout.write(json.dumps({"error": document}, ensure_ascii=False) + "\n")
    sys.stderr.write(literal("\n".join(["odf: " + first, *more])) + "\n")
    outside = document.get("code") in ("unavailable", "outcome-unknown")
    return code if code is not None else EXIT_OUTSIDE if outside else EXIT_REFUSED

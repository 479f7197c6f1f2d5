"""`odf heads` and `odf key`: the signed log of heads, and the keys that sign it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from odfabric.cli.backends.backend import check_writable
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import counted
from odfabric.errors import AlreadyExists, InvalidRequest, NotFound, Place

if TYPE_CHECKING:
    from odfabric.cli.output import Output

app = typer.Typer(help="Keys that sign the heads of datasets.", no_args_is_help=True)

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
FILE = typer.Argument(help="File of the key")
PASSPHRASE_FILE = typer.Option(None, "--passphrase-file", help="File with the passphrase; else it is asked for")
SHORT = 16
"""Characters of a hash that the table shows, without the prefix that all have."""
HASH_PREFIX = "f1620"


def register(root: typer.Typer) -> None:
    """Add the verbs to the command."""
    root.command("heads")(heads)
    root.add_typer(app, name="key")


def heads(
    context: typer.Context,
    ref: str = REF,
    limit: int = typer.Option(50, min=1, max=500, help="How many moves, newest first"),
) -> None:
    """Show the signed log of a dataset's head: who moved it, when and how."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.heads.described(ref, limit=limit)
    if output.as_json:
        output.document(found)
        return
    output.say(f"signed by {found['signer']} since {found['signedSince']}, entries: {found['entries']}")
    if found["lastSeen"]:
        seen = found["lastSeen"]
        output.say(f"last seen at {seen['place']} on {seen['seenAt']}: entry {seen['sequence']} of {seen['signedAt']}")
    output.rows(
        [
            {
                "entry": each["sequence"],
                "time": each["systemTime"],
                "kind": each["kind"],
                "from": _short(each["oldHead"]),
                "to": _short(each["newHead"]),
            }
            for each in found["moves"]
        ]
    )


@app.command("export")
def export(
    context: typer.Context,
    ref: str = REF,
    file: Path = FILE,
    passphrase_file: Path | None = PASSPHRASE_FILE,
    plain: bool = typer.Option(False, "--plain", help="Without a passphrase; a reader of the file can sign"),
) -> None:
    """Write the private key that signs a dataset to a new file that only you may read."""
    output = context_of(context).output
    if file.exists():
        raise AlreadyExists(f"{file} exists already", hint="choose another name")
    check_writable(file, field="FILE")
    passphrase = None if plain else _passphrase(passphrase_file, confirm=True)
    with backend_of(context_of(context), output) as backend:
        document = backend.heads.export(ref, passphrase=passphrase)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as written:
        written.write(document)
        written.flush()
        os.fsync(written.fileno())
    output.result({"file": str(file), "sealed": not plain}, f"the key of {ref} is in {file}; keep it safe")


@app.command("import")
def import_(
    context: typer.Context, ref: str = REF, file: Path = FILE, passphrase_file: Path | None = PASSPHRASE_FILE
) -> None:
    """Let this workspace sign a dataset whose key was exported elsewhere."""
    from odfabric.formats.heads.key_document import DOCUMENT_BYTES_MAX, is_sealed_document

    output = context_of(context).output
    if not file.is_file():
        raise NotFound("file", str(file))
    with file.open("rb") as opened:
        document = opened.read(DOCUMENT_BYTES_MAX + 1)
    passphrase = _passphrase(passphrase_file, confirm=False) if is_sealed_document(document) else None
    with backend_of(context_of(context), output) as backend:
        backend.heads.import_(ref, document, passphrase=passphrase)
    output.result({"imported": ref}, f"{ref} is signed here from now on; let one place at a time write to it")


@app.command("rotate")
def rotate(context: typer.Context, ref: str = REF) -> None:
    """Sign a dataset with a new key from now on; the present key signs the hand-over."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        signer = backend.heads.rotate(ref)
    output.result({"signer": signer}, f"{ref} is signed by {signer} from now on")


def show_report(output: Output, url: str, report: dict[str, object]) -> None:
    """The report of a dataset elsewhere, as `odf verify` prints it."""
    found = report["errors"]
    assert isinstance(found, list)
    verdict = "verified" if not found else counted(len(found), "problem")
    output.result(None, f"{url}: {verdict}; blocks: {report['blocks']}, objects: {report['objects']}")
    output.result(None, f"  dataset   {report['id']}")
    signed = report["signed"]
    if isinstance(signed, dict):
        output.result(None, f"  signed by {signed['signer']} since {signed['since']}")
        output.result(None, f"  newest    signature of {signed['signedAt']}, entries: {signed['entries']}")
        for each in signed["handOvers"]:
            output.result(None, f"  handed    over to {each['to']} on {each['systemTime']}")
    elif not found:
        output.result(None, "  signed by nobody: the keeper of the place could have written it")
    for problem in found:
        output.result(None, f"  {problem['kind']}: {problem['message']}")
        if problem["hint"]:
            output.result(None, f"    {problem['hint']}")


def _passphrase(file: Path | None, *, confirm: bool) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise InvalidRequest(
                "the passphrase is asked for on a terminal, and this is none",
                place=Place(field="--passphrase-file"),
                hint="write it into a file that only you may read, and name that with --passphrase-file",
            )
        return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True))
    try:
        with file.open("rb") as opened:
            text = opened.read(4096).decode().strip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(
            f"the passphrase cannot be read from {file}", place=Place(field="--passphrase-file")
        ) from None
    return text


def _short(block: str | None) -> str:
    return "" if block is None else block.removeprefix(HASH_PREFIX)[:SHORT]

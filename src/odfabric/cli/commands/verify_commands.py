"""Verbs of verification: verify, verify-report, publish-report, reports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from odfabric.cli.backends.backend import VerifyWish, check_file, check_writable
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import counted
from odfabric.errors import InvalidData, InvalidRequest, Place

if TYPE_CHECKING:
    from odfabric.cli.output import Output

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
REFS = typer.Argument(help="Names, account/names or did:odf:... of datasets")
FILE = typer.Argument(help="Report, as `odf verify --report FILE` has written it")
REPORT_BYTES_READ_MAX = 1 << 20


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("verify")(verify)
    app.command("verify-report")(verify_report)
    app.command("publish-report")(publish_report)
    app.command("reports")(reports)


def verify(
    context: typer.Context,
    refs: list[str] = REFS,
    replay: bool = typer.Option(True, help="Run every transaction of derivative datasets again"),
    metadata_only: bool = typer.Option(False, "--metadata-only", help="The chain alone, without objects"),
    data_only: bool = typer.Option(False, "--data-only", help="Chain and objects, without transactions"),
    after: str = typer.Option("", "--from", help="Only blocks after this one, by hash or number"),
    until: str = typer.Option("", "--to", help="Only blocks up to this one, by hash or number"),
    report: str = typer.Option("", help="File for a signed report of what was checked"),
    fetch: bool = typer.Option(
        False, "--fetch", help="Fetch what is missing or damaged here from pull and push aliases and repositories"
    ),
) -> None:
    """Verify chains, objects and, by re-execution, transactions.

    A URL, REPOSITORY/[account/]dataset or the path of a folder is a dataset elsewhere: its chain, its objects and its signed heads are verified, and nothing is kept of it.
    Exit code 1 if anything is wrong.
    """
    from odfabric.cli.backends.head_backends import place_of
    from odfabric.cli.transfer.head_commands import show_report

    if metadata_only and data_only:
        raise InvalidRequest("only one of --metadata-only and --data-only at a time")
    if len(refs) > 1 and (report or after or until):
        raise InvalidRequest("a report, and a range, is of one dataset", hint="verify one at a time")
    if report:
        check_writable(Path(report), field="--report")
    wish = VerifyWish(
        data=not metadata_only,
        replay=replay and not metadata_only and not data_only,
        after=after or None,
        until=until or None,
        report=bool(report),
        fetch=fetch,
    )
    output = context_of(context).output
    found = _Found()
    with backend_of(context_of(context), output, pulls=True) as backend:
        for ref in refs:
            url = place_of(ref) or (ref if "/" in ref and backend.sharing.is_remote(ref) else None)
            if url is not None:
                if report or fetch:
                    raise InvalidRequest(f"{ref} is elsewhere", hint="pull it, and verify the copy")
                elsewhere = dict(backend.heads.verify(url))
                found.add_elsewhere(elsewhere)
                if not output.as_json:
                    show_report(output, ref, elsewhere)
                continue
            answer = backend.verify(ref, wish)
            found.add(ref, answer, fetch=fetch)
            if not output.as_json:
                _show(output, ref, answer)
            if report:
                found.members["report"] = _write(report, answer["report"])
                if not output.as_json:
                    output.result(None, f"  the signed report is in {report}")
    if output.as_json:
        output.document({"ok": not found.errors, "errors": found.errors, **found.members})
    if found.errors:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Found:
    """What verifications have found, and further members of the answer in JSON."""

    errors: list[object] = field(default_factory=list)
    members: dict[str, Any] = field(default_factory=dict)

    def add_elsewhere(self, report: dict[str, Any]) -> None:
        """The report of a dataset elsewhere."""
        self.errors += report["errors"]
        self.members.setdefault("elsewhere", []).append(report)

    def add(self, ref: str, answer: dict[str, Any], *, fetch: bool) -> None:
        """The answer of a dataset here."""
        self.errors += answer["errors"]
        if fetch:
            for name in ("fetched", "notFetched"):
                self.members.setdefault(name, []).extend(answer[name])


def _show(output: Output, ref: str, answer: dict[str, Any]) -> None:
    problems = answer["errors"]
    for each in answer.get("fetched", []):
        output.result(None, f"{ref}: fetched {each['folder']} {each['object']} from {each['from']}")
    for line in answer.get("notFetched", []):
        output.result(None, f"  {line}")
    output.result(None, f"{ref}: {'verified' if not problems else counted(len(problems), 'problem')}")
    for line in answer.get("skipped", []):
        output.result(None, f"  skipped: {line}")
    for problem in problems:
        output.result(None, f"  {problem['kind']}: {problem['message']}")
        for what in ("block", "object"):
            if problem[what]:
                output.result(None, f"    {what:6} {problem[what]}")


def verify_report(context: typer.Context, file: str = FILE) -> None:
    """Check the signature of a verification report offline, and name who signed it.

    Exit code 1 if the signature is wrong, or the report says that something was.
    """
    from odfabric.formats.operations.verification_report import read_signed_report

    read = read_signed_report(_bytes_of(file), file=file)
    output = context_of(context).output
    members = dict(read.members)
    if output.as_json:
        output.document({"signer": read.signer, "report": members})
    else:
        try:
            lines = _lines_of(members, at=str(read.at), ok=read.ok)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidData(
                f"a member of the report is missing or wrong: {error}",
                place=Place(file=file, field="report"),
                hint="its signer has signed something else than a verification: ask for another one",
            ) from None
        output.result(None, f"signed by {read.signer}")
        output.result(None, f"dataset {read.dataset}")
        output.result(None, f"block   {read.block}")
        for line in lines:
            output.result(None, " ".join(line.splitlines()))
    if not read.ok:
        raise typer.Exit(1)


def publish_report(context: typer.Context, ref: str = REF, file: str = FILE) -> None:
    """Publish a verification report beside a dataset, one of each signer."""
    data = _bytes_of(file)
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        published = backend.history.publish_report(ref, data)
    output.result(published, f"published the report of {published['signer']}")


def reports(context: typer.Context, ref: str = REF) -> None:
    """Show who vouches for a dataset: the reports beside it, newest first."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.history.reports(ref)
    if output.as_json:
        output.document(found)
        return
    for one in found:
        result = "verified" if one["ok"] else "found problems"
        old = "" if one["inChain"] else ", a block that is no longer in the chain"
        output.result(None, f"{one['at']}  {result} by {one['mode']}, block {one['block']}{old}")
        output.result(None, f"  signed by {one['signer']}, published by {one['publishedBy']}")
    if not found:
        output.result(None, f"nobody has published a report on {ref}")


def _lines_of(members: dict[str, Any], *, at: str, ok: bool) -> list[str]:
    """What a report says, in lines.

    Raises KeyError, TypeError, ValueError for members that are not those of a report.
    """
    engine, heads = members.get("engine"), members.get("signed")
    by = f" with {engine['name']} {engine['version']} {engine['digest'][:16]}" if engine is not None else ""
    return [
        f"checked {members.get('mode')}{by} at {at}: {_counts(members)}",
        *([f"heads   signed by {heads['signer']}, entries: {heads['entries']}"] if heads is not None else []),
        "result  " + ("verified" if ok else counted(int(members["problems"]), "problem")),
        *(f"skipped {skipped}" for skipped in members.get("skipped", [])),
    ]


def _counts(members: dict[str, Any]) -> str:
    return ", ".join(counted(int(members[name]), name[:-1]) for name in ("blocks", "objects", "transactions"))


def _write(path: str, document: object) -> object:
    from odfabric.formats.operations.verification_report import report_text

    assert isinstance(document, dict)
    written = Path(path)
    if written.exists() and not written.is_file():  # such as /dev/stdout
        written.write_text(report_text(document))
        return document
    part = written.with_name(f".{written.name}.{os.getpid()}.part")
    try:
        part.write_text(report_text(document))
        part.replace(written)
    finally:
        part.unlink(missing_ok=True)
    return document


def _bytes_of(file: str) -> bytes:
    check_file(file)
    with Path(file).open("rb") as stream:
        return stream.read(REPORT_BYTES_READ_MAX)

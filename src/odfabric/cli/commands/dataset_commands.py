"""Verbs on datasets.

init, add, set-transform, set-source, set-info, list, show, ingest, pull, log, tail, sql, rename, delete.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from odfabric.cli.backends.backend import JobFailed, PushFile, check_file, media_type_of
from odfabric.cli.commands.moments import AS_AT, AS_OF, event_moment, system_moment
from odfabric.cli.context import backend_of, context_of, workspace_settings
from odfabric.cli.ingest_results import said_of, show_trial
from odfabric.errors import External, InvalidName, InvalidRequest, OdfError, Place
from odfabric.model.instant import Instant
from odfabric.model.people.account import Visibility

LOG_BLOCKS = 25
TAIL_ROWS = 10
SQL_ROWS = 100
FIRST_ADMIN = (
    "  to let people sign in: `odf up` shows a link for the first admin, `odf admin invite --admin --url URL` makes one"
)
STDIN = "-"
COPY_BYTES = 1 << 20

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
REFS = typer.Argument(help="Names, account/names or did:odf:... of datasets")


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    verbs: tuple[tuple[str, Callable[..., object]], ...] = (
        ("init", init),
        ("add", add),
        ("set-transform", set_transform),
        ("set-source", set_source),
        ("set-info", set_info),
        ("list", list_datasets),
        ("show", show),
        ("ingest", ingest),
        ("pull", pull),
        ("log", log),
        ("tail", tail),
        ("sql", sql),
        ("rename", rename),
        ("delete", delete),
    )
    for name, verb in verbs:
        app.command(name)(verb)


def init(context: typer.Context) -> None:
    """Make a workspace; one that exists is left as it is."""
    from odfabric.settings import read_settings
    from odfabric.wiring import is_workspace, prepare_workspace

    given = context_of(context)
    folder = Path(given.workspace).absolute()
    settings = read_settings(workspace=folder)
    existed = is_workspace(settings)
    prepare_workspace(settings)
    line = f"{folder} is a workspace already" if existed else f"made the workspace {folder}\n{FIRST_ADMIN}"
    given.output.result({"workspace": str(folder), "created": not existed}, line)


def add(
    context: typer.Context,
    manifests: list[str] = typer.Argument(help="YAML files, - for standard input"),
    public: bool | None = typer.Option(
        None,
        "--public/--private",
        help="Whether everybody may read them; `odf share` changes it later",
        show_default="private",
    ),
) -> None:
    """Create datasets from manifests."""
    output = context_of(context).output
    visibility = None if public is None else Visibility.PUBLIC if public else Visibility.PRIVATE
    added: list[dict[str, object]] = []
    with backend_of(context_of(context), output) as backend:
        for manifest in manifests:
            created = backend.add(manifest, visibility=visibility)
            added += created
            if not output.as_json:
                output.result(None, "\n".join(f"created {one['alias']}  {one['id']}" for one in created))
    if output.as_json:
        output.document(added)


def set_transform(
    context: typer.Context,
    manifest: str = typer.Argument(help="YAML file, - for standard input"),
    anew: bool = typer.Option(False, "--anew", help="Compute also what stays the same from the beginning"),
) -> None:
    """Give existing derivative datasets the transforms of a manifest.

    `odf engine validate` gives beforehand what that means.

    The next pull makes the rows those of the new query. Other events of the manifest are not looked at.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.set_transform(manifest, anew=anew)
    if not changed:
        raise InvalidRequest(
            f"{'standard input' if manifest == '-' else manifest} declares no derivative dataset",
            hint="only these have transforms",
        )
    if output.as_json:
        output.document(changed)
        return
    for one in changed:
        if not one["blocks"]:
            output.result(None, f"{one['alias']} has this transform already")
        else:
            said = f"{one['verdict']}: {one['reason']}" if one["verdict"] else "it has not run yet"
            output.result(None, f"changed {one['alias']}; {said}")


def set_source(context: typer.Context, manifest: str = typer.Argument(help="YAML file, - for standard input")) -> None:
    """Give existing root datasets the sources of a manifest.

    New optional columns are added to their schemas.

    A push source takes the place of that with its name. Other events of the manifest are not looked at.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.set_source(manifest)
    if not changed:
        raise InvalidRequest(
            f"{'standard input' if manifest == '-' else manifest} declares no root dataset",
            hint="only these have sources",
        )
    if output.as_json:
        output.document(changed)
        return
    for one in changed:
        output.result(None, _sources_changed(one))


def _sources_changed(one: Mapping[str, Any]) -> str:
    if not one["blocks"]:
        return f"{one['alias']} has these sources already"
    added = f"; new columns: {', '.join(one['columns'])}" if one["columns"] else ""
    return f"changed {', '.join(one['sources'])} of {one['alias']}{added}"


def set_info(context: typer.Context, manifest: str = typer.Argument(help="YAML file, - for standard input")) -> None:
    """Give existing datasets the description, licence and documents of a manifest.

    SetInfo, SetLicense and SetAttachments.

    Of what the manifest leaves out a dataset keeps its own; other events are not looked at.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.set_info(manifest)
    if output.as_json:
        output.document(changed)
        return
    for one in changed:
        output.result(None, f"changed {one['alias']}" if one["blocks"] else f"{one['alias']} says so already")


def list_datasets(context: typer.Context) -> None:
    """List datasets."""
    given = context_of(context)
    output = given.output
    if given.node is None:
        # This imports a fifth of what a workspace needs that does more.
        from odfabric.cli.backends.workspace_listing import list_workspace

        found = list_workspace(workspace_settings(given))
    else:
        with backend_of(given, output) as backend:
            found = backend.datasets()
    # People know datasets by name.
    output.rows(found if output.as_json else [{"alias": one["alias"], **one} for one in found])


def show(context: typer.Context, ref: str = REF) -> None:
    """Show what a dataset is: info, licence, schema, vocabulary, head."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        output.document(backend.show(ref))


def ingest(
    context: typer.Context,
    ref: str = REF,
    files: list[str] = typer.Argument(help="Data files, - for standard input"),
    source_name: str = typer.Option("", help="Push source, if the dataset has several"),
    media_type: str = typer.Option("", help="E.g. text/csv; default: by the file's ending, else the source's"),
    event_time: str = typer.Option("", help="RFC 3339 time for rows without one; default: now"),
    idempotency_key: str | None = typer.Option(None, help="A repeated key commits nothing twice (single file only)"),
    allow_shrink: bool = typer.Option(False, help="A Snapshot may lose most of its rows"),
    dry_run: bool = typer.Option(False, help="Commit nothing; say what would become of the rows"),
) -> None:
    """Push files to a root dataset, one commit each."""
    output = context_of(context).output
    if idempotency_key is not None and len(files) > 1:
        raise InvalidRequest("one idempotency key is for one file")
    moment = _instant(event_time)
    results = []
    with backend_of(context_of(context), output) as backend:
        for file in files:
            with _readable(file) as path:
                push = PushFile(
                    path=path,
                    name=file,
                    source_name=source_name or None,
                    media_type=media_type or media_type_of(file),
                    event_time=moment,
                    idempotency_key=idempotency_key,
                    allow_shrink=allow_shrink,
                )
                results.append(backend.try_push(ref, push) if dry_run else backend.push(ref, push))
            if dry_run and not output.as_json:
                show_trial(results[-1], file, output)
            elif not output.as_json:
                output.result(None, f"{file}: {said_of(results[-1])}")
    if output.as_json:
        output.document(results[0] if len(results) == 1 else results)
    if any("problem" in result for result in results):
        raise typer.Exit(1)


def pull(
    context: typer.Context,
    refs: list[str] = typer.Argument(help="Datasets; of others the URL or REPOSITORY/[account/]dataset"),
    name: str = typer.Option("", "--as", help="Name of the copy of a remote dataset; default: its name there"),
    recursive: bool = typer.Option(False, "--recursive", "-r", help="Bring inputs up to date first"),
    fetch_uncacheable: bool = typer.Option(False, help="Append what a source sends that cannot tell what is new"),
    allow_shrink: bool = typer.Option(False, help="A Snapshot may lose most of its rows"),
    fetch: bool = typer.Option(False, help="Fetch again what is kept of a pull that fetched and then failed"),
    force: bool = typer.Option(
        False, "--force", help="Replace a copy that is ahead of its source or aside from it; takes the right to rewrite"
    ),
    recompute: bool = typer.Option(
        False,
        "--recompute",
        help="If the history of an input was rewritten, drop the rows and compute them from the beginning",
    ),
) -> None:
    """Bring datasets up to date: poll, transform or copy.

    One that fails does not keep the others from it; its failure is reported at the end.
    """
    from odfabric.usecases.polling.poll_report import poll_lines

    output = context_of(context).output
    results = []
    failed: list[OdfError | JobFailed] = []
    with backend_of(context_of(context), output, pulls=True) as backend:
        for number, ref in enumerate(refs, 1):
            url = ref if backend.sharing.is_remote(ref) else None
            target = name or (_name_of_copy(ref) if url else ref)
            try:
                pulled = backend.pull(
                    target,
                    url=url,
                    recursive=recursive,
                    fetch_uncacheable=fetch_uncacheable,
                    allow_shrink=allow_shrink,
                    fetch_again=fetch,
                    force=force,
                    recompute=recompute,
                )
            except External:
                if len(refs) > 1:
                    left = f"; not tried: {', '.join(refs[number:])}" if refs[number:] else ""
                    output.say(f"{target} was not pulled{left}")
                raise
            except (OdfError, JobFailed) as error:
                failed.append(error)
                if len(refs) > 1:
                    output.say(f"{target} was not pulled: {error}")
                continue
            results.append(pulled)
            if not output.as_json:
                what = "up to date" if pulled["upToDate"] else said_of(pulled)
                output.result(None, f"{pulled['alias']}: {what}")
                for line in poll_lines(pulled.get("poll")):
                    output.result(None, f"  {line}")
    if output.as_json and results:
        output.document(results[0] if len(refs) == 1 else results)
    if failed:
        raise failed[0]


def _name_of_copy(ref: str) -> str:
    """The last part of a remote name.

    Raises InvalidRequest if that cannot name a dataset.
    """
    from odfabric.formats.identifiers.references import parse_name

    last = ref.partition("://")[2].partition("/")[2] if "://" in ref else ref
    last = last.rstrip("/").rpartition("/")[2]
    try:
        return str(parse_name(last))
    except InvalidName as error:
        raise InvalidRequest(
            f"{ref} ends with no name of a dataset: {last[:100]!r}",
            hint=f"write the URL of a dataset, as https://host/account/dataset, or give the copy a name with --as; {error.hint}",
        ) from None


def log(context: typer.Context, ref: str = REF, limit: int = typer.Option(LOG_BLOCKS, "--limit", "-n", min=1)) -> None:
    """Show the metadata chain, newest block first."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        links = backend.log(ref, limit=limit)
    if output.as_json:
        output.document(links)
        return
    from odfabric.formats.manifests.yaml_writer import dump_yaml

    for link in links:
        output.result(None, f"Block: {link['hash']}\n{dump_yaml(link['block']['content'])}")  # type: ignore[index]


def tail(
    context: typer.Context,
    ref: str = REF,
    limit: int = typer.Option(TAIL_ROWS, "--limit", "-n", min=1),
    skip: int = typer.Option(0, min=0, help="Newest rows to leave out"),
    as_at: str = AS_AT,
    corrects: bool = typer.Option(False, "--corrects", help="Show which record each correction or withdrawal is about"),
) -> None:
    """Show the last rows of the changelog."""
    output = context_of(context).output
    known = system_moment(as_at)
    with backend_of(context_of(context), output) as backend:
        rows = backend.tail(ref, limit=limit, skip=skip, as_at=known, corrects=corrects)
    output.stored_rows(rows)


def sql(
    context: typer.Context,
    query: str = typer.Argument(help="Spark SQL; datasets by name, account/name in backticks or double quotes"),
    limit: int = typer.Option(SQL_ROWS, "--limit", "-n", min=1),
    as_at: str = AS_AT,
    as_of: str = AS_OF,
) -> None:
    """Query datasets."""
    output = context_of(context).output
    known, held = system_moment(as_at), event_moment(as_of)
    with backend_of(context_of(context), output) as backend:
        rows = backend.sql(query, limit=limit, as_at=known, as_of=held)
    output.rows(rows)
    if len(rows) == limit and not output.as_json:
        output.say(f"the first {limit} rows; --limit shows more")


def delete(
    context: typer.Context,
    refs: list[str] = REFS,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask"),
) -> None:
    """Delete datasets. Asks on a terminal."""
    output = context_of(context).output
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete {', '.join(refs)} for good?", abort=True)
    deleted = []
    with backend_of(context_of(context), output) as backend:
        for ref in refs:
            deleted.append(backend.delete(ref))
            if not output.as_json:
                output.result(None, f"deleted {deleted[-1]['alias']}")
    if output.as_json:
        output.document(deleted)


def rename(
    context: typer.Context, ref: str = REF, name: str = typer.Argument(help="New name, without the account")
) -> None:
    """Give a dataset another name. Its id and history stay; derived datasets go on."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        renamed = backend.rename(ref, name)
    output.result(renamed, f"renamed to {renamed['alias']}")


def _instant(text: str) -> Instant | None:
    if not text:
        return None
    try:
        return Instant.parse(text)
    except ValueError as error:
        raise InvalidRequest(str(error), place=Place(field="--event-time"), hint="e.g. 2026-01-31T12:00:00Z") from None


@contextmanager
def _readable(file: str) -> Iterator[str]:
    """A path that can be read, standard input being copied to one."""
    if file != STDIN:
        check_file(file)
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="odf-stdin-") as copy:
        while chunk := sys.stdin.buffer.read(COPY_BYTES):
            copy.write(chunk)
        copy.flush()
        yield copy.name

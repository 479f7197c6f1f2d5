"""Poll the source of a root dataset: fetch what is new, prepare it, ingest it, one commit a file.

Invariant: the source state that a block carries says exactly what was ingested up to it, so polling again after any interruption
continues where the chain ends. A source that breaks in the middle commits nothing of the file in question.
Source: specification, "Polling sources"; reference behaviour of ingest, sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingest_plan import DEFAULT_SOURCE_NAME, is_uncacheable, polling_source
from odfabric.domain.polling import (
    ETAG,
    LAST_MODIFIED,
    etag_state,
    file_event_time,
    files_after,
    http_date,
    last_modified_state,
    url_event_time,
    url_state,
    value_of,
)
from odfabric.domain.snapshot_guard import UNGUARDED, SnapshotGuard
from odfabric.errors import Determinate, HeadMoved, InvalidData, InvalidManifest, LimitExceeded, NotFound, Place
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import EngineProgress
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.metadata import SetPollingSource, SourceState
from odfabric.model.source import (
    CompressionFormat,
    FetchStepFilesGlob,
    FetchStepUrl,
    PrepStep,
    PrepStepDecompress,
)
from odfabric.ports.clock import Clock
from odfabric.ports.egress import HttpSource
from odfabric.ports.engine import Engine
from odfabric.ports.exchange import Exchange
from odfabric.ports.object_store import ObjectStore
from odfabric.ports.polling_files import PollingFiles, SourcePreparation
from odfabric.ports.state_index import StateIndex
from odfabric.usecases.commit import Commits, PlannedCommit
from odfabric.usecases.commit_result import CommitResult, joined, result_of
from odfabric.usecases.ingest import IngestInput, plan_ingest
from odfabric.usecases.job_run import JobRun
from odfabric.usecases.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingPorts:
    """Where polled data comes from.

    `files` are those that a node may read. `files_of_user` are all files that the person who owns the workspace may read,
    relative paths beginning at the given folder: only for pulls that this person asked for at the command line.
    """

    http: HttpSource
    files: PollingFiles
    files_of_user: Callable[[Path], PollingFiles]
    preparation: SourcePreparation


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One fetched file: where it lies, what users call it, what to remember, whether the source has more."""

    path: Path
    name: str
    source_state: SourceState | None
    event_time: Instant | None
    remaining: int = 0


def poll_source(
    entry: CatalogEntry,
    *,
    run: JobRun,
    repository: Repository,
    commits: Commits,
    engine: Engine,
    exchange: Exchange,
    objects: ObjectStore,
    sources: PollingPorts,
    clock: Clock,
    files_max: int,
    fetch_uncacheable: bool = False,
    folder_of_user: Path | None = None,
    index: StateIndex | None = None,
    guard: SnapshotGuard = UNGUARDED,
) -> CommitResult | None:
    """Ingest everything that the source has; None if it has nothing new, is uncacheable or is not defined.

    Raises InvalidManifest for fetch kinds and options that this node cannot run, NotFound if the source is not there,
    AccessDenied, Determinate, and what ingesting raises. What was committed before a failure stays.
    """
    result: CommitResult | None = None
    files = sources.files if folder_of_user is None else sources.files_of_user(folder_of_user)
    for taken in range(files_max):
        head, state = repository.current(entry.id)
        source = polling_source(state)
        if source is None or (is_uncacheable(state, source.fetch) and not fetch_uncacheable):
            return result
        with exchange.session() as folder:
            fetched = _fetch(source, state, folder, http=sources.http, files=files, clock=clock)
            if fetched is None:
                return result
            run.report(EngineProgress(stage=f"ingest {fetched.name}", done=taken, total=taken + 1 + fetched.remaining))
            prepared = _prepare(source.prepare or (), fetched, folder, preparation=sources.preparation)
            given = _ingest_input(source, fetched, prepared, folder, guard=guard)

            def build(base: Head, given: IngestInput = given) -> PlannedCommit | None:
                return plan_ingest(
                    entry.id,
                    base,
                    given,
                    run=run,
                    repository=repository,
                    engine=engine,
                    exchange=exchange,
                    objects=objects,
                    index=index,
                ).commit

            _check_unchanged(source, fetched, files)
            try:
                committed = commits.commit(entry.id, build, if_match=head.hash, by=[run.actor])
            except HeadMoved:
                # Somebody else polled meanwhile, and perhaps this very file: what is new is decided by the chain as it is now.
                continue
        if committed is not None:
            result = joined(result, result_of(committed))
        if not fetched.remaining:
            return result
    raise LimitExceeded("the source has more files than one pull takes", limit="poll_files_max", maximum=files_max)


def _ingest_input(
    source: SetPollingSource, fetched: Fetched, prepared: Path, folder: Path, *, guard: SnapshotGuard
) -> IngestInput:
    return IngestInput(
        folder=folder,
        paths=(prepared,),
        names=(fetched.name,),
        read=source.read,
        preprocess=source.preprocess,
        merge=source.merge,
        source_name=DEFAULT_SOURCE_NAME,
        source_state=fetched.source_state,
        event_time=fetched.event_time,
        guard=guard,
    )


def _fetch(
    source: SetPollingSource, state: ChainState, folder: Path, *, http: HttpSource, files: PollingFiles, clock: Clock
) -> Fetched | None:
    match source.fetch:
        case FetchStepUrl(url=url) as step if url.startswith("file://"):
            return _fetch_file(step, state.source_state, files=files, now=clock.now())
        case FetchStepUrl() as step:
            return _fetch_url(step, state.source_state, folder, http=http, now=clock.now())
        case FetchStepFilesGlob() as step:
            return _fetch_from_glob(step, state, files=files, now=clock.now())
        case other:
            raise InvalidManifest(
                f"this node cannot run fetch steps of the kind {type(other).__name__.removeprefix('FetchStep')}",
                place=Place(field="fetch.kind"),
                hint="use Url or FilesGlob, or push the data",
            )


def _check_unchanged(source: SetPollingSource, fetched: Fetched, files: PollingFiles) -> None:
    """Refuse a file that was replaced while it was copied: it would be committed under the time of the one before."""
    step = source.fetch
    if isinstance(step, FetchStepUrl) and step.url.startswith("file://"):
        modified = last_modified_state(_rounded(files.file(step.url).modified_at))
        if modified != fetched.source_state:
            raise Determinate(f"{fetched.name} changed while it was read", hint="it is tried again")


def _rounded(moment: Instant) -> Instant:
    """To milliseconds as the reference does it, so that a chain can be continued by either."""
    return Instant.from_millis((moment.epoch_ns + NANOS_PER_MILLI // 2) // NANOS_PER_MILLI)


def _fetch_file(step: FetchStepUrl, last: SourceState | None, *, files: PollingFiles, now: Instant) -> Fetched | None:
    found = files.file(step.url)
    new_state = last_modified_state(_rounded(found.modified_at))
    if value_of(last, LAST_MODIFIED) == new_state.value:
        return None
    event_time = url_event_time(step.event_time, new_state, now)
    return Fetched(path=found.path, name=found.name, source_state=new_state, event_time=event_time)


def _fetch_url(
    step: FetchStepUrl, last: SourceState | None, folder: Path, *, http: HttpSource, now: Instant
) -> Fetched | None:
    if "${{" in step.url or any("${{" in header.value for header in step.headers or ()):
        raise InvalidManifest(
            "templates in urls and headers are not supported", place=Place(field="fetch.url"), hint="write the value"
        )
    into = folder / "fetched"
    response = http.fetch(
        step.url,
        headers=[(header.name, header.value) for header in step.headers or ()],
        etag=value_of(last, ETAG),
        last_modified=http_date(last),
        into=into,
    )
    if response.status == 304:
        return None
    new_state = url_state(etag=response.etag, last_modified=response.last_modified)
    name = step.url.partition("?")[0].rstrip("/").rpartition("/")[2] or "source"
    return Fetched(
        path=into, name=name, source_state=new_state, event_time=url_event_time(step.event_time, new_state, now)
    )


def _fetch_from_glob(
    step: FetchStepFilesGlob, state: ChainState, *, files: PollingFiles, now: Instant
) -> Fetched | None:
    by_name = {found.name: found for found in files.glob(step.path)}
    if not by_name and state.source_state is None:
        raise NotFound("source", step.path, hint="no file matches the path")
    waiting = files_after(list(by_name), state.source_state, step)
    if not waiting:
        return None
    found = by_name[waiting[0]]
    return Fetched(
        path=found.path,
        name=found.name,
        source_state=etag_state(found.name),
        event_time=file_event_time(step.event_time, found.name, now),
        remaining=len(waiting) - 1,
    )


def _prepare(steps: tuple[PrepStep, ...], fetched: Fetched, folder: Path, *, preparation: SourcePreparation) -> Path:
    """Run the steps one after the other; the result lies in `folder`, where the engine may read it."""
    path = fetched.path
    for number, step in enumerate(steps):
        into = folder / f"prepared-{number}"
        try:
            _prepare_step(step, number, path, into, preparation=preparation)
        except (InvalidData, LimitExceeded) as refused:
            # The user knows the file by the name that the source gives it, not by that of the step's input.
            refused.place = replace(refused.place, file=fetched.name)
            raise
        path = into
    if path is fetched.path and not path.is_relative_to(folder):
        into = folder / "fetched"
        preparation.copy(path, into)
        path = into
    return path


def _prepare_step(step: PrepStep, number: int, path: Path, into: Path, *, preparation: SourcePreparation) -> None:
    match step:
        case PrepStepDecompress(format=CompressionFormat.GZIP):
            preparation.decompress_gzip(path, into)
        case PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=sub_path):
            preparation.decompress_zip(path, into, sub_path=sub_path)
        case _:
            raise InvalidManifest(
                "this node does not run commands to prepare data",
                place=Place(field=f"prepare[{number}].kind"),
                hint="use Decompress, or preprocess with SQL",
            )

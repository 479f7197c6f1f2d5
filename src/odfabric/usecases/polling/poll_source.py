"""Poll a root dataset's source: fetch, prepare, ingest, one commit a file.

Invariant: the source state and the attributes that a block carries say exactly what was ingested up to it, so polling again after any
interruption continues where the chain ends. A source that breaks in the middle commits nothing of the file in question. A pull that takes
nothing says what it asked and why. Source: specification, "Polling sources"; specification, "Data Ingestion".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.ingest_plan import DEFAULT_SOURCE_NAME, polling_source
from odfabric.domain.ingestion.intake_limits import UNLIMITED, IntakeLimits
from odfabric.domain.sources.polled_content import last_content
from odfabric.domain.sources.polled_files import repeats_rows
from odfabric.domain.sources.polling import last_modified_state
from odfabric.domain.sources.source_templates import Lookup, without_secrets
from odfabric.errors import (
    Determinate,
    HeadMoved,
    InvalidData,
    InvalidManifest,
    LeaseLost,
    LimitExceeded,
    OdfError,
    Place,
)
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import SetPollingSource
from odfabric.model.source import (
    CompressionFormat,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
)
from odfabric.ports.node.clock import Clock
from odfabric.ports.sources.containers import ContainerSource
from odfabric.ports.sources.egress import HttpSource
from odfabric.ports.sources.messages import MessageSource
from odfabric.ports.sources.polling_files import PollingFiles, SourcePreparation
from odfabric.ports.sources.programs import PreparePrograms
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.usecases.chain.commit import Commits, Committed, PlannedCommit
from odfabric.usecases.ingestion.commit_result import CommitResult, joined, result_of
from odfabric.usecases.ingestion.ingest import IngestInput, IngestPorts, plan_ingest, plan_source_state
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.polling.container_fetch import fetch_container
from odfabric.usecases.polling.fetch_folder import FolderPoll, look_at_folder
from odfabric.usecases.polling.fetch_url import fetch_file, fetch_url, keep_body, rounded
from odfabric.usecases.polling.fetched import Fetched, NotModified
from odfabric.usecases.polling.known_files import KnownFiles
from odfabric.usecases.polling.message_pull import MessagePull
from odfabric.usecases.polling.poll_report import UNCACHEABLE_HINT, Outcome, PollReport

RACES_MAX = 10
"""How often a pull begins again because another one has committed meanwhile."""


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
    programs: PreparePrograms
    messages: MessageSource
    containers: ContainerSource | None
    savepoints: Savepoints
    known_files: KnownFiles = field(default_factory=KnownFiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPorts:
    """Everything that a poll needs.

    `lookup` finds the variables of a dataset, `intake` is what a Snapshot may lose, and how many rows a quarantine
    takes.
    """

    ingest: IngestPorts
    commits: Commits
    sources: PollingPorts
    clock: Clock
    lookup: Callable[[DatasetId], Lookup]
    intake: IntakeLimits = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class PollWishes:
    """What a pull asks for beyond the ordinary.

    `fetch_uncacheable` appends content of a source that cannot tell what is new. `fetch_again` ignores a body that is kept from a failed
    pull. `folder_of_user`: the person's own files may be read, from this folder on.
    """

    files_max: int
    messages_max: int
    fetch_uncacheable: bool = False
    fetch_again: bool = False
    folder_of_user: Path | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """`result` is what was committed, None for nothing.

    `report` says why, None without a polling source.
    """

    result: CommitResult | None
    report: PollReport | None
    more: bool = False
    """Whether the source has said that there is more."""


def poll_source(entry: CatalogEntry, *, run: JobRun, ports: PollPorts, wishes: PollWishes) -> Polled:
    """Ingest everything that the source has.

    Raises InvalidManifest for fetch kinds and options that this node cannot run, NotFound if the source or a variable is not there,
    AccessDenied, Determinate, and what ingesting raises. What was committed before a failure stays.
    """
    poll = _Poll(entry.id, run, ports, wishes)
    _, state = ports.ingest.repository.current(entry.id)
    source = polling_source(state)
    if source is None:
        return Polled(None, None)
    if isinstance(source.fetch, FetchStepFilesGlob):
        return poll.folder(source, source.fetch)
    if isinstance(source.fetch, FetchStepMqtt):
        return poll.messages(source, source.fetch)
    polled = poll.one_at_last()
    for _ in range(wishes.files_max):
        if not polled.more:
            return polled
        following = poll.one_at_last()
        if following.result is None:
            return replace(polled, more=False)
        result = joined(polled.result, following.result)
        polled = replace(following, result=result)
    raise LimitExceeded("the source has more than one pull takes", limit="poll_files_max", maximum=wishes.files_max)


@dataclass(frozen=True, slots=True)
class _Poll:
    """One pull of one dataset."""

    dataset: DatasetId
    run: JobRun
    ports: PollPorts
    wishes: PollWishes

    @property
    def files(self) -> PollingFiles:
        sources, folder = self.ports.sources, self.wishes.folder_of_user
        return sources.files if folder is None else sources.files_of_user(folder)

    def one_at_last(self) -> Polled:
        """The same as `one`, again while others commit.

        Raises Determinate if they never stop.
        """
        for _ in range(RACES_MAX):
            with suppress(HeadMoved):
                return self.one()
        raise Determinate("other pulls of this dataset commit all the time", hint="it is tried again")

    def one(self) -> Polled:
        """A source that has one file at a time.

        Raises HeadMoved if somebody else has committed: the chain as it is then decides.
        """
        head, state = self.ports.ingest.repository.current(self.dataset)
        source = polling_source(state)
        if source is None:
            return Polled(None, None)
        with self.ports.ingest.exchange.session() as folder:
            fetched = self._fetch(source, state, folder)
            if isinstance(fetched, NotModified):
                return Polled(None, _report(source, Outcome.NOT_MODIFIED, fetched))
            if fetched.polled.content == last_content(state):
                committed = self._commit_state(fetched, head, state)
                self._forget_body(source)
                return Polled(_result(committed), _report(source, Outcome.SAME_CONTENT, fetched))
            if _is_uncacheable(state, source) and not self.wishes.fetch_uncacheable:
                return Polled(None, _report(source, Outcome.UNCACHEABLE, fetched))
            with self._body_kept(source, state, fetched):
                committed = self._take(source, fetched, head, folder, done=0)
        self._forget_body(source)
        outcome = Outcome.NOTHING_NEW if committed is None else Outcome.TAKEN
        return Polled(_result(committed), _report(source, outcome, fetched), more=fetched.remaining > 0)

    def folder(self, source: SetPollingSource, step: FetchStepFilesGlob) -> Polled:
        """All files of a folder that are to be read now, one commit each."""
        ports, result, taken = self.ports, None, 0
        poll = look_at_folder(
            step,
            source.merge,
            self.dataset,
            ports.ingest.repository.head(self.dataset).hash,
            files=self.files,
            known=ports.sources.known_files,
            repository=ports.ingest.repository,
        )
        read = False
        while poll.waiting:
            if taken == self.wishes.files_max:
                raise LimitExceeded(
                    "the source has more files than one pull takes", limit="poll_files_max", maximum=taken
                )
            head, state = ports.ingest.repository.current(self.dataset)
            if polling_source(state) != source:
                break  # it was replaced meanwhile: the next pull reads by the new one
            fetched = poll.next(state.source_state, head.hash, ports.ingest.repository, ports.clock.now())
            if fetched is None:
                break
            taken += 1
            with suppress(HeadMoved), ports.ingest.exchange.session() as folder:
                committed = self._take(source, fetched, head, folder, done=taken - 1, poll=poll)
                read = True
                poll.taken(fetched, committed=committed is not None, now=ports.clock.now())
                result = result if committed is None else joined(result, result_of(committed))
        outcome = Outcome.NOT_MODIFIED if not read else Outcome.NOTHING_NEW if result is None else Outcome.TAKEN
        return Polled(result, PollReport(source=step.path, outcome=outcome, passed=poll.passed, hint=_hint(poll)))

    def messages(self, source: SetPollingSource, step: FetchStepMqtt) -> Polled:
        """Messages that wait with a broker, one commit a batch.

        Each batch is acknowledged once it is committed.
        """
        ports, result, done = self.ports, None, 0
        pull = MessagePull(source, step, ports.sources.messages, self.wishes.messages_max, ports.lookup(self.dataset))
        while pull.goes_on:
            head, state = ports.ingest.repository.current(self.dataset)
            if polling_source(state) != source:
                break  # it was replaced meanwhile: the next pull reads by the new one
            with suppress(HeadMoved), ports.ingest.exchange.session() as folder, pull.next(state, folder) as fetched:
                if fetched is None:
                    break
                committed = self._take(source, fetched, head, folder, done=done)
                pull.taken()
                result = result if committed is None else joined(result, result_of(committed))
                done += 1
        outcome = Outcome.NOT_MODIFIED if not done else Outcome.NOTHING_NEW if result is None else Outcome.TAKEN
        return Polled(result, PollReport(source=f"mqtt://{step.host}:{step.port}", outcome=outcome))

    def _fetch(self, source: SetPollingSource, state: ChainState, folder: Path) -> Fetched | NotModified:
        sources, now, last = self.ports.sources, self.ports.clock.now(), state.source_state
        match source.fetch:
            case FetchStepUrl(url=url) as step if url.startswith("file://"):
                return fetch_file(step, last, files=self.files, now=now)
            case FetchStepUrl() as step:
                return fetch_url(
                    step,
                    self.dataset,
                    last,
                    folder,
                    http=sources.http,
                    savepoints=sources.savepoints,
                    lookup=self.ports.lookup(self.dataset),
                    now=now,
                    again=self.wishes.fetch_again,
                )
            case FetchStepContainer() as step if sources.containers is not None:
                return fetch_container(
                    step, last, folder, containers=sources.containers, lookup=self.ports.lookup(self.dataset)
                )
            case other:
                raise InvalidManifest(
                    f"this node cannot run fetch steps of the kind {type(other).__name__.removeprefix('FetchStep')}",
                    place=Place(field="fetch.kind"),
                    hint="use Url or FilesGlob, or push the data",
                )

    def _take(
        self,
        source: SetPollingSource,
        fetched: Fetched,
        head: Head,
        folder: Path,
        *,
        done: int,
        poll: FolderPoll | None = None,
    ) -> Committed | None:
        """Prepare and ingest one file on top of `head`; None if it brought nothing new.

        Raises HeadMoved.
        """
        ports, run = self.ports, self.run
        run.report(EngineProgress(stage=f"ingest {fetched.name}", done=done, total=done + 1 + fetched.remaining))
        prepared = _prepare(source.prepare or (), fetched, folder, sources=ports.sources)
        given = replace(_ingest_input(source, fetched, prepared, folder), intake=ports.intake)

        def build(base: Head) -> PlannedCommit | None:
            return plan_ingest(
                self.dataset,
                base,
                given,
                run=run,
                ports=ports.ingest,
            ).commit

        if poll is not None:
            poll.check_unchanged()
        self._check_unchanged(source, fetched)
        return ports.commits.commit(self.dataset, build, if_match=head.hash, by=[run.actor])

    def _commit_state(self, fetched: Fetched, head: Head, state: ChainState) -> Committed | None:
        """Commit new validators of the same content.

        The next pull is then answered without the content.
        """
        source_state, run = fetched.source_state, self.run
        if source_state is None or source_state == state.source_state:
            return None

        def build(base: Head) -> PlannedCommit | None:
            return plan_source_state(
                self.dataset, base, source_state, fetched.polled, run=run, repository=self.ports.ingest.repository
            )

        return self.ports.commits.commit(self.dataset, build, if_match=head.hash, by=[run.actor])

    def _check_unchanged(self, source: SetPollingSource, fetched: Fetched) -> None:
        """Refuse a file that was replaced while it was copied.

        It would be committed under the time of the one before.
        """
        step = source.fetch
        if isinstance(step, FetchStepUrl) and step.url.startswith("file://"):
            modified = last_modified_state(rounded(self.files.file(step.url).modified_at))
            if modified != fetched.source_state:
                raise Determinate(f"{fetched.name} changed while it was read", hint="it is tried again")

    @contextmanager
    def _body_kept(self, source: SetPollingSource, state: ChainState, fetched: Fetched) -> Iterator[None]:
        """Keep an HTTP body that cannot be ingested, for when the source is corrected.

        It need not be fetched again then.
        """
        try:
            yield
        except (HeadMoved, LeaseLost):
            raise
        except OdfError as error:
            # A server may say in its answer what it was sent.
            without_secrets(error, fetched.secrets)
            if _is_http(source):
                assert isinstance(source.fetch, FetchStepUrl)
                with suppress(Determinate):
                    keep_body(
                        fetched,
                        source.fetch,
                        self.dataset,
                        state.source_state,
                        savepoints=self.ports.sources.savepoints,
                        lookup=self.ports.lookup(self.dataset),
                        now=self.ports.clock.now(),
                    )
            raise

    def _forget_body(self, source: SetPollingSource) -> None:
        if _is_http(source):
            with suppress(Determinate):
                self.ports.sources.savepoints.drop(self.dataset)


def _is_http(source: SetPollingSource) -> bool:
    return isinstance(source.fetch, FetchStepUrl) and not source.fetch.url.startswith("file://")


def _is_uncacheable(state: ChainState, source: SetPollingSource) -> bool:
    """Whether taking the content could repeat rows.

    There are records, no state says what is new, and no key does.
    """
    return state.last_offset is not None and state.source_state is None and repeats_rows(source.merge)


def _result(committed: Committed | None) -> CommitResult | None:
    return None if committed is None else result_of(committed)


def _report(source: SetPollingSource, outcome: Outcome, found: Fetched | NotModified) -> PollReport:
    step = source.fetch
    return PollReport(
        source=step.url if isinstance(step, FetchStepUrl) else type(step).__name__.removeprefix("FetchStep"),
        outcome=outcome,
        asked=found.asked,
        status=found.status,
        hint=UNCACHEABLE_HINT if outcome is Outcome.UNCACHEABLE else None,
        resumed=isinstance(found, Fetched) and found.resumed,
        unreachable=found.unreachable if isinstance(found, Fetched) else None,
    )


def _hint(poll: FolderPoll) -> str | None:
    return poll.passed[0].hint if poll.passed else None


def _ingest_input(source: SetPollingSource, fetched: Fetched, prepared: Path, folder: Path) -> IngestInput:
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
        polled=fetched.polled,
    )


def _prepare(steps: tuple[PrepStep, ...], fetched: Fetched, folder: Path, *, sources: PollingPorts) -> Path:
    """Run the steps one after the other.

    The result lies in `folder`, where the engine may read it.
    """
    path = fetched.path
    for number, step in enumerate(steps):
        into = folder / f"prepared-{number}"
        try:
            _prepare_step(step, number, path, into, sources=sources)
        except (InvalidData, LimitExceeded) as refused:
            # The user knows the file by the name that the source gives it, not by that of the step's input.
            refused.place = replace(refused.place, file=fetched.name)
            raise
        path = into
    if path is fetched.path and not path.is_relative_to(folder):
        into = folder / "fetched"
        sources.preparation.copy(path, into)
        path = into
    return path


def _prepare_step(step: PrepStep, number: int, path: Path, into: Path, *, sources: PollingPorts) -> None:
    match step:
        case PrepStepDecompress(format=CompressionFormat.GZIP):
            sources.preparation.decompress_gzip(path, into)
        case PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=sub_path):
            sources.preparation.decompress_zip(path, into, sub_path=sub_path)
        case PrepStepPipe(command=command):
            try:
                sources.programs.run(command, path, into)
            except (InvalidData, InvalidManifest) as refused:
                refused.place = replace(refused.place, field=f"prepare[{number}].command")
                raise
        case _:
            raise InvalidManifest("this node does not know this step", place=Place(field=f"prepare[{number}].kind"))

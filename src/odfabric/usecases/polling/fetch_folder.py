"""Take a folder's files one after the other, in natural order.

Invariant: a pull looks at the folder once and decides then which files it reads; files that come meanwhile are for the next pull. The source
state is the greatest name that was read, as other ODF nodes have it; details of each file are in the attributes of its block. Not here: the
rules (`domain.sources.polled_files`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odfabric.domain.sources.polled_content import PolledContent
from odfabric.domain.sources.polled_files import FilePlan, FoundFile, KnownFile, PassedFile, plan_files, state_name
from odfabric.domain.sources.polling import ETAG, check_order, etag_state, file_event_time, value_of
from odfabric.errors import Determinate, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import SourceState
from odfabric.model.multihash import Multihash
from odfabric.model.source import FetchStepFilesGlob, MergeStrategy
from odfabric.ports.sources.polling_files import LocalFile, PollingFiles
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.polling.fetch_url import hash_of
from odfabric.usecases.polling.fetched import Fetched
from odfabric.usecases.polling.known_files import KnownFiles


@dataclass(slots=True)
class FolderPoll:
    """One pull of a folder.

    `waiting` are files still to be read, in order; `passed` those that are not read.
    """

    step: FetchStepFilesGlob
    dataset: DatasetId
    known: KnownFiles
    waiting: list[LocalFile]
    passed: tuple[PassedFile, ...]

    def next(self, state: SourceState | None, head: Multihash, repository: Repository, now: Instant) -> Fetched | None:
        """The next file, None if there is none; what others read meanwhile is left out."""
        read = self.known.of(self.dataset, head, repository)
        while self.waiting:
            file = self.waiting[0]
            known = read.get(file.name)
            if known is None or not known.is_unchanged(_found(file)):
                return self._fetched(file, state, now)
            self.waiting.pop(0)
        return None

    def check_unchanged(self) -> None:
        """Refuse the file at the front if it was replaced since the folder was looked at.

        Raises Determinate.
        """
        file = self.waiting[0]
        try:
            now = file.path.stat()
        except OSError:
            now = None
        if now is None or (now.st_size, now.st_mtime_ns) != (file.size, file.modified_at.epoch_ns):
            raise Determinate(f"{file.name} changed while it was read", hint="it is tried again")

    def taken(self, fetched: Fetched, *, committed: bool, now: Instant) -> None:
        """The file was read; without a commit its rows were known already."""
        self.waiting.pop(0)
        if not committed:
            polled = fetched.polled
            known = KnownFile(read_at=now, size=polled.size, modified_at=polled.modified_at, content=polled.content)
            self.known.note(self.dataset, fetched.name, known)

    def _fetched(self, file: LocalFile, state: SourceState | None, now: Instant) -> Fetched:
        return Fetched(
            path=file.path,
            name=file.name,
            source_state=etag_state(state_name(value_of(state, ETAG), file.name)),
            event_time=file_event_time(self.step.event_time, file.name, now),
            polled=PolledContent(
                content=hash_of(file.path), name=file.name, size=file.size, modified_at=file.modified_at
            ),
            remaining=len(self.waiting) - 1,
        )


def look_at_folder(
    step: FetchStepFilesGlob,
    merge: MergeStrategy,
    dataset: DatasetId,
    head: Multihash,
    *,
    files: PollingFiles,
    known: KnownFiles,
    repository: Repository,
) -> FolderPoll:
    """List the folder and decide what to read.

    Raises NotFound if nothing ever matched, as `PollingFiles.glob`, InvalidManifest.
    """
    check_order(step)
    listed = files.glob(step.path)
    read = known.of(dataset, head, repository)
    if not listed and not read:
        raise NotFound("source", step.path, hint="no file matches the path")
    by_name: dict[str, LocalFile] = {}
    for file in listed:
        by_name.setdefault(file.name, file)
    _forgive_touched(by_name, dataset, read, known)
    plan: FilePlan = plan_files([_found(file) for file in listed], read, merge)
    return FolderPoll(step, dataset, known, [by_name[name] for name in plan.read], plan.passed)


def _forgive_touched(
    by_name: dict[str, LocalFile], dataset: DatasetId, read: dict[str, KnownFile], known: KnownFiles
) -> None:
    """A file with only a new time is the same, as its content shows once per time."""
    for name, file in by_name.items():
        before = read.get(name)
        if before is not None and before.may_be_same(_found(file)) and hash_of(file.path) == before.content:
            read[name] = replace(before, modified_at=file.modified_at)
            known.note(dataset, name, read[name])


def _found(file: LocalFile) -> FoundFile:
    return FoundFile(name=file.name, size=file.size, modified_at=file.modified_at)

"""Verbs on a local workspace: the node in this process, its engine on demand.

Owns the translation of command-line requests into verbs of `Node`. Work goes through the same durable jobs as on a node, so a command
that was killed is finished by the next one.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from odfabric.cli.backends.backend import (
    CursorBackend,
    FlowBackend,
    JobFailed,
    JobListener,
    PushFile,
    VariableBackend,
    VerifyWish,
    WebhookBackend,
    linked_rows,
    source_text,
)
from odfabric.cli.backends.cursor_backends import WorkspaceCursors
from odfabric.cli.backends.people_backend import PeopleBackend
from odfabric.cli.backends.workspace_listing import listed_dataset
from odfabric.errors import InvalidRequest, NotFound, OdfError
from odfabric.formats.blocks.block import read_block_header
from odfabric.formats.identifiers.moments import parse_event_moment, parse_system_moment
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.formats.manifests.manifest_places import PlacedSnapshot
from odfabric.formats.manifests.manifest_yaml import block_to_manifest, parse_placed_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import DatasetKind
from odfabric.model.moment import SystemMoment
from odfabric.model.people.account import Visibility
from odfabric.model.why_request import WhyRequest
from odfabric.usecases.datasets.set_info import info_events
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.state.read_state import ReadState
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node
from odfabric.wiring.composed.renaming import rename

if TYPE_CHECKING:
    from odfabric.cli.backends.head_backends import HeadBackend
    from odfabric.cli.backends.history_backends import HistoryBackend
    from odfabric.cli.backends.sharing_backends import SharingBackend

READ_BYTES = 1 << 20


class WorkspaceBackend:
    """A `Backend` on a node of this process."""

    def __init__(self, node: Node, *, listener: JobListener) -> None:
        self._node = node
        self._listener = listener

    @property
    def cursors(self) -> CursorBackend:
        """Verbs of cursors."""
        return WorkspaceCursors(self._node)

    @property
    def flows(self) -> FlowBackend:
        """Verbs of flows."""
        from odfabric.cli.backends.automation.flow_backends import WorkspaceFlows

        return WorkspaceFlows(self._node)

    @property
    def variables(self) -> VariableBackend:
        """Verbs of variables."""
        from odfabric.cli.backends.automation.variable_backends import WorkspaceVariables

        return WorkspaceVariables(self._node)

    @property
    def webhooks(self) -> WebhookBackend:
        """A workspace sends none. Raises InvalidRequest."""
        raise InvalidRequest("webhooks are sent by a node", hint="name one with --node; `odf up` starts one")

    @property
    def heads(self) -> HeadBackend:
        """Verbs of signed heads and their keys."""
        from odfabric.cli.backends.head_backends import WorkspaceHeads

        return WorkspaceHeads(self._node, self._resolve)

    @property
    def sharing(self) -> SharingBackend:
        """Verbs of repositories elsewhere, and of pushes there."""
        from odfabric.cli.backends.sharing_backends import WorkspaceSharing

        return WorkspaceSharing(self._node, self._finish)

    @property
    def history(self) -> HistoryBackend:
        """Verbs that rewrite history."""
        from odfabric.cli.backends.history_backends import WorkspaceHistory

        return WorkspaceHistory(self._node, self._finish)

    @property
    def people(self) -> PeopleBackend:
        """Verbs of accounts and rights."""
        from odfabric.cli.backends.people.workspace_people import WorkspacePeople

        return WorkspacePeople(self._node)

    def add(self, path: str, *, visibility: Visibility | None = None) -> list[dict[str, object]]:
        """Create all datasets of a manifest file, in order."""
        limits = self._node.manifest_limits
        text, shown = source_text(path, bytes_max=limits.bytes_max)
        added: list[dict[str, object]] = []
        for placed in parse_placed_snapshots(text, file=shown, limits=limits):
            try:
                with placed.refusals_in_file():
                    entry, head = self._node.datasets.create(
                        placed.snapshot, self._node.operator, visibility=visibility or Visibility.PRIVATE
                    )
            except OdfError as error:
                if added:
                    error.hint = f"created before it: {', '.join(str(one['alias']) for one in added)}"
                raise
            added.append({"id": str(entry.id), "alias": str(entry.alias), "head": str(head)})
        return added

    def set_transform(self, path: str, *, anew: bool = False) -> list[dict[str, object]]:
        """Change the transforms of all datasets of a manifest file, in order."""
        changed = []
        for placed in self._placed(path, DatasetKind.DERIVATIVE):
            with placed.refusals_in_file():
                found = self._node.editing.set_transform(placed.snapshot, self._node.operator, anew=anew)
            changed.append(found.to_value(self._node.datasets.head(found.entry)))
        return changed

    def set_source(self, path: str) -> list[dict[str, object]]:
        """Change the sources of all datasets of a manifest file, in order."""
        changed = []
        for placed in self._placed(path, DatasetKind.ROOT):
            with placed.refusals_in_file():
                found = self._node.editing.set_source(placed.snapshot, self._node.operator)
            changed.append(found.to_value(self._node.datasets.head(found.entry)))
        return changed

    def set_info(self, path: str) -> list[dict[str, object]]:
        """Change what all datasets of a manifest file say of themselves, in order."""
        changed = []
        for placed in self._placed(path, None):
            with placed.refusals_in_file():
                entry = self._node.repository.resolve(placed.snapshot.name)
                events = info_events(placed.snapshot.metadata)
                found = self._node.editing.set_info(entry, events, self._node.operator)
            changed.append(found.to_value(self._node.datasets.head(found.entry)))
        return changed

    def _placed(self, path: str, kind: DatasetKind | None) -> list[PlacedSnapshot]:
        """The manifests of a file, only those of this kind of dataset if there is one."""
        limits = self._node.manifest_limits
        text, shown = source_text(path, bytes_max=limits.bytes_max)
        placed = parse_placed_snapshots(text, file=shown, limits=limits)
        return [each for each in placed if kind in (None, each.snapshot.kind)]

    def datasets(self) -> list[dict[str, object]]:
        """All datasets."""
        found: list[dict[str, object]] = []
        after = None
        while page := self._node.datasets.page(after=after, limit=self._node.settings.page_rows_max):
            found += [_listed(self._node, entry) for entry in page]
            after = page[-1].alias
        return found

    def show(self, ref: str) -> dict[str, object]:
        """What a dataset is now."""
        entry = self._resolve(ref)
        parts = frozenset({"info", "license", "refs", "schema", "vocab"})
        return {**_listed(self._node, entry), **self._node.datasets.metadata(entry, parts, "OdfJson")}

    def push(self, ref: str, push: PushFile) -> dict[str, object]:
        """Push one file and wait for its commit."""
        entry = self._resolve(ref)
        request = PushData(
            dataset=entry.id,
            body=_chunks(push.path),
            file_name=push.name,
            source_name=push.source_name,
            media_type=push.media_type,
            event_time=push.event_time,
            idempotency_key=push.idempotency_key,
            allow_shrink=push.allow_shrink,
        )
        found = self._node.requests.push(request)
        return found.to_value() if isinstance(found, CommitResult) else dict(self._finish(found))

    def try_push(self, ref: str, push: PushFile) -> dict[str, object]:
        """What a push would do."""
        from odfabric.wiring.composed.uploads import UploadVerbs

        job = UploadVerbs(self._node).try_push(
            self._resolve(ref),
            _chunks(push.path),
            file_name=push.name,
            source_name=push.source_name,
            media_type=push.media_type,
            by=self._node.operator,
        )
        return dict(self._finish(job))

    def pull(
        self,
        ref: str,
        *,
        url: str | None,
        recursive: bool,
        fetch_uncacheable: bool = False,
        fetch_again: bool = False,
        allow_shrink: bool = False,
        force: bool = False,
        recompute: bool = False,
    ) -> dict[str, object]:
        """Bring a dataset up to date and wait. `url` may name a dataset of a repository."""
        from odfabric.cli.backends.sharing_backends import place_written

        alias, dataset = None, None
        url = None if url is None else self._node.sharing.names.source_url(place_written(url), self._node.operator)
        try:
            entry = self._resolve(ref)
            alias, dataset = entry.alias, entry.id
        except NotFound:
            if url is None:
                raise
            parsed = parse_dataset_ref(ref)
            if not isinstance(parsed, DatasetAlias):
                raise
            alias = self._node.repository.local_alias(str(parsed.account) if parsed.account else None, str(parsed.name))
        request = PullRequest(
            dataset=dataset,
            alias=alias,
            url=url,
            recursive=recursive,
            fetch_uncacheable=fetch_uncacheable,
            allow_shrink=allow_shrink,
            fetch_again=fetch_again,
            force=force,
            recompute=recompute,
            folder_of_user=Path.cwd(),
        )
        return dict(self._finish(self._node.requests.pull(request)))

    def log(self, ref: str, *, limit: int) -> list[dict[str, object]]:
        """Blocks, newest first."""
        entry = self._resolve(ref)
        stored = self._node.repository.blocks(entry.id)
        shown: list[dict[str, object]] = []
        for link in self._node.datasets.log(entry, limit=limit):
            version = read_block_header(stored.get_bytes(link.hash)).manifest_version
            shown.append({"hash": str(link.hash), "block": block_to_manifest(link.block, version=version)})
        return shown

    def tail(
        self, ref: str, *, limit: int, skip: int, as_at: str | None = None, corrects: bool = False
    ) -> list[dict[str, object]]:
        """The last rows."""
        asked = ReadTail(
            skip=skip,
            limit=limit,
            data_format="JsonAoS",
            schema_format=None,
            as_at=_system_moment(as_at),
            corrects=corrects,
        )
        return linked_rows(self._node.rows.tail(self._resolve(ref), asked))

    def state(self, ref: str, *, as_at: str | None, as_of: str | None, limit: int, skip: int) -> dict[str, object]:
        """The rows at a moment."""
        asked = ReadState(
            as_at=_system_moment(as_at),
            as_of=_event_moment(as_of),
            skip=skip,
            limit=limit,
        )
        return self._node.rows.state(self._resolve(ref), asked)

    def sql(
        self, query: str, *, limit: int, as_at: str | None = None, as_of: str | None = None
    ) -> list[dict[str, object]]:
        """Rows of a query."""
        asked = QueryData(sql=query, limit=limit, as_at=_system_moment(as_at), as_of=_event_moment(as_of))
        answer = self._node.rows.query_document(asked, QueryForm())
        return _rows(answer["output"])

    def why(self, ref: str, asked: WhyRequest) -> dict[str, object]:
        """Why records are there."""
        return self._node.provenance.why(self._resolve(ref), asked, self._listen)

    def why_in(self, ref: str, asked: WhyRequest, form: Literal["prov", "openlineage"], *, namespace: str) -> object:
        """The same in another form."""
        entry = self._resolve(ref)
        return self._node.provenance.why_as(form, entry, asked, self._listen, namespace=namespace)

    def _listen(self, progress: EngineProgress) -> None:
        self._listener({"stage": progress.stage, "done": progress.done, "total": progress.total})

    def verify(self, ref: str, wish: VerifyWish) -> dict[str, object]:
        """Verify a dataset and wait."""
        entry, reports = self._resolve(ref), self._node.reports
        options = VerifyOptions(
            data=wish.data,
            replay=wish.replay,
            after=reports.block(entry, wish.after),
            until=reports.block(entry, wish.until),
            report=wish.report,
            fetch=wish.fetch,
        )
        job = self._node.requests.verify(entry, options)
        return dict(self._finish(job))

    def delete(self, ref: str) -> dict[str, object]:
        """Delete a dataset."""
        entry = self._resolve(ref)
        self._node.datasets.delete(entry)
        return {"id": str(entry.id), "alias": str(entry.alias)}

    def rename(self, ref: str, name: str) -> dict[str, object]:
        """Rename a dataset."""
        entry = rename(self._node, self._resolve(ref), name)
        return {"id": str(entry.id), "alias": str(entry.alias)}

    def _follow(self) -> None:
        """Bring indexes forward that the work has put behind."""
        while (run := self._node.indexes.lease(f"cli/{os.getpid()}")) is not None:
            run.listener = self._listener
            self._node.jobs.run(run)

    def _resolve(self, ref: str) -> CatalogEntry:
        return self._node.datasets.resolve(parse_dataset_ref(ref))

    def _finish(self, job: Job) -> Mapping[str, object]:
        """Work until the job has ended; raises JobFailed with its problem."""
        with _interrupted_by_sigterm():
            ended = self._node.jobs.work_until_ended(job, worker=f"cli/{os.getpid()}", listener=self._listener)
            self._node.background.relay_outbox()
            self._follow()
        if ended.status is JobStatus.SUCCEEDED:
            result: Mapping[str, object] = json.loads(ended.result or "{}")
            return result
        raise JobFailed(json.loads(ended.error or '{"message": "the job was cancelled", "code": "cancelled"}'))


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C, so that a job which is being done is given back at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listed(node: Node, entry: CatalogEntry) -> dict[str, object]:
    return listed_dataset(entry, node.datasets.head(entry))


def _system_moment(text: str | None) -> SystemMoment | None:
    return None if text is None else parse_system_moment(text, field="asAt")


def _event_moment(text: str | None) -> Instant | None:
    return None if text is None else parse_event_moment(text, field="asOf")


def _rows(output: object) -> list[dict[str, object]]:
    """Rows of an answer in the form JsonAoS."""
    match output:
        case {"data": list(rows)}:
            return rows
        case _:
            raise TypeError("the answer has no rows")


def _chunks(path: str) -> Iterator[bytes]:
    if path == "-":
        raise InvalidRequest("standard input is read by the command line only")
    with Path(path).open("rb") as stream:
        while chunk := stream.read(READ_BYTES):
            yield chunk

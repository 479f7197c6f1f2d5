"""Files that become datasets, bound to ports: upload or fetch, judge, try, push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.file_shape import FileShape
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest, PushToTry
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.people.account import Visibility
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.datasets.create_dataset import free_alias
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.staging import StagedBody
from odfabric.usecases.ingestion.try_push import Trial, enqueue_try, planned_state
from odfabric.usecases.ingestion.uploads import (
    Upload,
    UploadPorts,
    discard_upload,
    judge_again,
    judged_upload,
    shown_name,
    stage_upload,
    tried_upload,
    upload_file,
    upload_url,
)
from odfabric.wiring.node import Node


@dataclass(frozen=True, slots=True)
class UploadVerbs:
    """What somebody with a file asks of a node.

    Nothing is committed but by `make` and `push`.
    """

    node: Node

    @property
    def _ports(self) -> UploadPorts:
        node = self.node
        return UploadPorts(
            objects=node.ports.objects,
            jobs=node.ports.jobs,
            clock=node.ports.clock,
            entropy=node.ports.entropy,
            quotas=node.quotas,
            lifetime_s=node.settings.staged_lifetime_s,
            per_account_max=node.settings.uploads_per_account_max,
            part=node.ports.own_part,
        )

    def upload(self, chunks: Iterator[bytes], *, file_name: str, by: Subject) -> Job:
        """Take a file in; the job that judges it. Raises LimitExceeded, InvalidRequest."""
        return self._woken(upload_file(chunks, file_name=file_name, subject=by, ports=self._ports))

    def fetch(self, url: str, *, by: Subject) -> Job:
        """The job that fetches a file and judges it. Raises LimitExceeded, InvalidRequest."""
        return self._woken(upload_url(url, subject=by, ports=self._ports))

    def judge_again(self, job: Job, shape: FileShape, *, by: Subject) -> Job:
        """The job that judges the same file as written in another way. Raises NotFound."""
        return self._woken(judge_again(job, shape, subject=by, ports=self._ports))

    def judged(self, job: Job, *, by: Subject) -> Upload:
        """What a job has judged. Raises NotFound."""
        return judged_upload(job, subject=by, ports=self._ports)

    def discard(self, job: Job, *, by: Subject) -> None:
        """Remove the file. Raises NotFound."""
        discard_upload(job, subject=by, ports=self._ports)

    def try_new(self, upload: Upload, snapshot: DatasetSnapshot, *, shown: Mapping[str, object], by: Subject) -> Job:
        """The job that tries what a new dataset would get.

        Raises what creating it would, as far as that is known.
        """
        node = self.node
        free_alias(snapshot.name, by, access=node.access, repository=node.seen_by(by))
        now = node.ports.clock.now().truncated_to_millis()
        planned_state(snapshot, now=now, column_name_bytes_max=node.settings.column_name_bytes_max)
        trial = Trial(staged=upload.staged, file_name=upload.file_name, target=snapshot, shown=shown)
        return self._enqueue(trial, by)

    def try_push(
        self,
        entry: CatalogEntry,
        chunks: Iterator[bytes],
        *,
        file_name: str,
        source_name: str | None,
        media_type: str | None,
        by: Subject,
    ) -> Job:
        """The job that tries what a push to a dataset would do.

        Raises AccessDenied, LimitExceeded, InvalidRequest.
        """
        self.node.access.require(by, Action.PUSH, entry)
        staged = stage_upload(chunks, subject=by, ports=self._ports)
        trial = Trial(
            staged=staged,
            file_name=shown_name(file_name),
            target=PushToTry(dataset=entry.id, source_name=source_name, media_type=media_type),
        )
        return self._enqueue(trial, by)

    def make(
        self, upload: Upload, snapshot: DatasetSnapshot, *, visibility: Visibility, by: Subject
    ) -> tuple[CatalogEntry, Job]:
        """Create the dataset and queue its first push, or pull if it fetches the file."""
        node = self.node
        entry, _ = node.datasets.create(snapshot, by, visibility=visibility)
        if upload.url is not None:
            return entry, node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias), by=by)
        return entry, self._push(entry, upload.staged, file_name=upload.file_name, by=by)

    def push_tried(self, entry: CatalogEntry, job: Job, *, by: Subject) -> Job:
        """Push the file of a trial.

        Raises NotFound for a trial of another dataset, and what `accept_push` raises.
        """
        staged, request = tried_upload(job, subject=by, ports=self._ports)
        target = request.target
        if not isinstance(target, PushToTry) or target.dataset != entry.id:
            raise NotFound("job", job.id)
        return self._push(
            entry,
            staged,
            file_name=request.file_name,
            source_name=target.source_name,
            media_type=target.media_type,
            by=by,
        )

    def _push(
        self,
        entry: CatalogEntry,
        staged: StagedBody,
        *,
        file_name: str,
        source_name: str | None = None,
        media_type: str | None = None,
        by: Subject,
    ) -> Job:
        push = PushData(
            dataset=entry.id, body=staged, file_name=file_name, source_name=source_name, media_type=media_type
        )
        found = self.node.requests.push(push, by=by)
        assert isinstance(found, Job)  # a push without a key is a new one
        return found

    def _enqueue(self, trial: Trial, by: Subject) -> Job:
        ports = self.node.ports
        return self._woken(enqueue_try(trial, subject=by, jobs=ports.jobs, clock=ports.clock, entropy=ports.entropy))

    def _woken(self, job: Job) -> Job:
        self.node.ports.signals.send(Topic.JOBS)
        return job

"""What jobs do, bound to the ports of a node.

Owns the table of kinds of jobs and the check that the one who asked for a job still has the right to it when it is done. Not here: leases and
retries (`usecases.jobs.run_job`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from odfabric.domain.history.compaction import CompactionLimits
from odfabric.domain.ingestion.intake_limits import IntakeLimits
from odfabric.domain.people.access import Action, Subject
from odfabric.domain.transfer.direction import LOCAL, TransferProtocol, choose_protocol, scheme_of
from odfabric.formats.files.file_rows import RowLimits
from odfabric.formats.jobs.try_request import read_try_request
from odfabric.formats.jobs.verify_request import read_verify_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind
from odfabric.model.jobs.requests import PullRequest, PushToTry
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.dataset_variables import VariableVerbs
from odfabric.usecases.history.compact_dataset import CompactPorts, clear_dataset, run_compact
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.ingest import IngestPorts
from odfabric.usecases.ingestion.judge_file import FilePorts, run_judge
from odfabric.usecases.ingestion.quarantine import Quarantine
from odfabric.usecases.ingestion.run_push import PushGroupLimits, PushPorts, run_push
from odfabric.usecases.ingestion.try_push import TryPorts, run_try
from odfabric.usecases.jobs.job_actor import asker_of
from odfabric.usecases.jobs.job_run import JobRun, LeasedRun
from odfabric.usecases.polling.poll_source import Polled, PollPorts, PollWishes, poll_source
from odfabric.usecases.provenance.why_job import run_why
from odfabric.usecases.transfer.fetch_missing import Fetching, FetchPorts
from odfabric.usecases.transfer.pull_dataset import PullRights, PullVerbs, RemoteCopy, run_pull
from odfabric.usecases.transfer.pull_remote import pull_remote
from odfabric.usecases.transfer.receive_chain import Landing, ReceivePorts
from odfabric.usecases.transfer.send_dataset import run_send
from odfabric.usecases.transfer.serve_objects import ReferredObjects
from odfabric.usecases.transfer.smart_pull import smart_pull
from odfabric.usecases.transform.run_transform import TransformPorts, run_transform
from odfabric.usecases.verification.signed_reports import SignReport
from odfabric.usecases.verification.verify_dataset import run_verify
from odfabric.usecases.verification.verify_heads import StoredLogs
from odfabric.wiring.datasets.explaining import ProvenanceVerbs
from odfabric.wiring.engine.engines import transaction_limits
from odfabric.wiring.jobs.indexes import IndexVerbs
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.transfer.sharing import SharingVerbs
from odfabric.wiring.transfer.smart import SmartVerbs, smart_peers


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """`stored` is the repository without nearby copies, for verification.

    Verification must not trust copies.
    """

    core: NodeCore
    stored: Repository
    indexes: IndexVerbs
    variables: VariableVerbs
    sharing: SharingVerbs
    sign: SignReport

    @property
    def verbs(self) -> Mapping[JobKind, Callable[[Job, LeasedRun], Mapping[str, object]]]:
        """What to do, by kind."""
        return {
            JobKind.PUSH: self._run_push,
            JobKind.PULL: self._run_pull,
            JobKind.VERIFY: self._run_verify,
            JobKind.INDEX: self.indexes.run,
            JobKind.JUDGE: self._run_judge,
            JobKind.TRY: self._run_try,
            JobKind.SEND: self._run_send,
            JobKind.COMPACT: self._run_compact,
            JobKind.WHY: self._run_why,
        }

    def smart(self, referred: ReferredObjects) -> SmartVerbs:
        """The server's side of the Smart protocol."""
        return SmartVerbs(
            core=self.core,
            referred=referred,
            receiving=self.receiving,
        )

    def _check(self, job: Job, action: Action) -> None:
        """Raises unless the asker may still do this to the job's dataset.

        NotFound, AccessDenied or CredentialRefused.
        """
        subject = self._asker(job)
        if job.dataset_id is not None:
            self.core.access.require(subject, action, self.core.repository.resolve(job.dataset_id))

    def _asker(self, job: Job) -> Subject:
        return asker_of(job, access=self.core.access, tokens=self.core.ports.tokens)

    def _run_push(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        settings = self.core.settings
        ports = PushPorts(
            ingest=self._ingest(),
            commits=self.core.commits,
            jobs=self.core.ports.jobs,
            admits=lambda asked: self._check(asked, Action.PUSH),
            intake=self._intake(),
        )
        group = PushGroupLimits(jobs_max=settings.push_group_jobs_max, bytes_max=settings.push_group_bytes_max)
        return run_push(job, run, ports=ports, group=group).to_value()

    def _run_pull(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        verbs = PullVerbs(poll=self._poll, transform=self._transform, sync=self._sync)
        rights = PullRights(subject=self._asker(job), access=self.core.access, quotas=self.core.quotas)
        return run_pull(job, run, rights=rights, repository=self.core.repository, verbs=verbs)

    def _run_verify(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        ports = self.core.ports
        self._check(job, Action.WRITE if read_verify_request(job).fetch else Action.FOLLOW)
        return run_verify(
            job,
            run,
            repository=self.stored,
            engine=ports.engine,
            exchange=ports.exchange,
            clock=ports.clock,
            blocks_max=self.core.settings.chain_blocks_max,
            replays_at_once=self.core.settings.replays_at_once,
            heads=StoredLogs(logs=ports.head_logs, entries_max=self.core.settings.head_log_entries_max),
            fetch=lambda entry, run: self._fetching(entry, run, self._asker(job)),
            sign=self.sign,
        )

    def _fetching(self, entry: CatalogEntry, run: JobRun, subject: Subject) -> Fetching:
        ports, settings = self.core.ports, self.core.settings
        fetching = FetchPorts(
            repository=self.stored,
            remotes=ports.remotes,
            names=self.sharing.names,
            exchange=ports.exchange,
            blocks_max=settings.chain_blocks_max,
            object_bytes_max=settings.object_bytes_max,
            at_once=settings.transfers_at_once,
            checks_at_once=settings.transfer_checks_at_once,
        )
        return Fetching(entry=entry, subject=subject, ports=fetching, report=run.report)

    def _files(self) -> FilePorts:
        ports, settings = self.core.ports, self.core.settings
        return FilePorts(
            objects=ports.objects,
            exchange=ports.exchange,
            http=ports.sources.http,
            limits=RowLimits(
                columns_max=settings.judged_columns_max,
                line_characters_max=settings.judged_line_characters_max,
            ),
        )

    def _run_judge(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        self._asker(job)
        return run_judge(job, run, ports=self._files())

    def _run_send(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        return run_send(job, run, subject=self._asker(job), verbs=self.sharing.sending)

    def _run_compact(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        self._check(job, Action.REWRITE)
        settings = self.core.settings
        limits = CompactionLimits(
            slice_bytes_max=settings.compaction_slice_bytes_max,
            slice_records_max=settings.compaction_slice_records_max,
        )
        return run_compact(job, run, limits=limits, ports=self._compacting())

    def _run_why(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        subject, settings, verbs = self._asker(job), self.core.settings, ProvenanceVerbs(self.core)
        return run_why(
            job,
            run,
            subject=subject,
            access=self.core.access,
            ports=verbs.ports(subject, wall_s_max=settings.provenance_job_wall_s_max),
            peers=verbs.peers(subject),
            answer_bytes_max=settings.provenance_answer_bytes_max,
        )

    def _compacting(self) -> CompactPorts:
        ports = self.core.ports
        return CompactPorts(
            repository=self.core.repository,
            commits=self.core.commits,
            exchange=ports.exchange,
            objects=ports.objects,
            blocks_max=self.core.settings.compaction_blocks_max,
        )

    def _run_try(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        subject, target = self._asker(job), read_try_request(job).target
        if isinstance(target, PushToTry):
            self.core.access.require(subject, Action.PUSH, self.core.repository.resolve(target.dataset))
        ports = TryPorts(
            files=self._files(),
            ingest=self._ingest(),
            clock=self.core.ports.clock,
            column_name_bytes_max=self.core.settings.column_name_bytes_max,
            intake=self._intake(),
        )
        return run_try(job, run, ports=ports)

    def _poll(self, entry: CatalogEntry, run: JobRun, request: PullRequest) -> Polled:
        given = self.core.ports
        ports = PollPorts(
            ingest=self._ingest(),
            commits=self.core.commits,
            sources=given.sources,
            clock=given.clock,
            lookup=self.variables.lookup,
            intake=self._intake().confirming if request.allow_shrink else self._intake(),
        )
        wishes = PollWishes(
            files_max=self.core.settings.poll_files_max,
            messages_max=self.core.settings.mqtt_messages_max,
            fetch_uncacheable=request.fetch_uncacheable,
            fetch_again=request.fetch_again,
            folder_of_user=request.folder_of_user,
        )
        return poll_source(entry, run=run, ports=ports, wishes=wishes)

    def _ingest(self) -> IngestPorts:
        given = self.core.ports
        plain = IngestPorts(
            repository=self.core.repository,
            engine=given.engine,
            exchange=given.exchange,
            objects=given.objects,
            index=self.indexes.used,
        )
        quarantine = Quarantine(ingest=plain, commits=self.core.commits, keys=given.keys, clock=given.clock)
        return replace(plain, keep_rejected=quarantine.keep)

    def _intake(self) -> IntakeLimits:
        settings = self.core.settings
        return IntakeLimits(
            shrink_max=settings.snapshot_shrink_max,
            snapshot_rows_min=settings.snapshot_shrink_rows_min,
            rejected_rows_max=settings.rejected_rows_max,
            column_name_bytes_max=settings.column_name_bytes_max,
        )

    def _transform(self, entry: CatalogEntry, run: JobRun, request: PullRequest) -> CommitResult | None:
        ports = self.core.ports
        settings = self.core.settings
        if request.recompute and self.core.histories(self.core.repository).rewritten(entry):
            clear_dataset(entry, run=run, ports=self._compacting())
        transform_ports = TransformPorts(
            repository=self.core.repository,
            commits=self.core.commits,
            engine=ports.engine,
            exchange=ports.exchange,
            objects=ports.objects,
            blocks_max=settings.chain_blocks_max,
            limits=transaction_limits(settings),
        )
        return run_transform(entry, run=run, ports=transform_ports)

    def _sync(self, copy: RemoteCopy, run: JobRun) -> CommitResult | None:
        ports = self.core.ports
        landing = Landing(alias=copy.alias, remote_url=copy.url, force=copy.force)
        if choose_protocol(scheme_of(copy.url), LOCAL) is TransferProtocol.SMART:
            peers = smart_peers(ports, self.core.settings)
            return smart_pull(
                landing,
                copy.url,
                run=run,
                peers=peers,
                remotes=ports.remotes,
                exchange=ports.exchange,
                ports=self.receiving,
            )
        return pull_remote(
            landing,
            copy.url,
            run=run,
            remotes=ports.remotes,
            exchange=ports.exchange,
            ports=self.receiving,
        )

    @property
    def receiving(self) -> ReceivePorts:
        """What takes a chain in that comes from elsewhere."""
        return ReceivePorts(
            heads=self.core.log_judge,
            repository=self.core.repository,
            commits=self.core.commits,
            objects=self.core.ports.objects,
            clock=self.core.ports.clock,
            blocks_max=self.core.settings.chain_blocks_max,
            object_bytes_max=self.core.settings.object_bytes_max,
            at_once=self.core.settings.transfers_at_once,
            checks_at_once=self.core.settings.transfer_checks_at_once,
        )

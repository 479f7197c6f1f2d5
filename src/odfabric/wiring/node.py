"""The verbs of a node, bound to its ports: the face that services and the command line use.

Owns nothing but the binding: each method hands its ports and limits to one use case.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.people.access import LOCAL_ACCOUNT, AccessPolicy, Subject
from odfabric.domain.people.dataset_search import EVERYTHING, Narrowing
from odfabric.errors import NotFound, OdfError
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import EngineInfo, EngineProgress
from odfabric.model.identity import DatasetAlias, DatasetRef
from odfabric.model.jobs.job import Job, JobKind, Lane
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.model.subscriptions.subscription import Delivery, Subscription
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.subscriptions.signals import Topic
from odfabric.settings import Settings
from odfabric.telemetry import span, working_on
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.read_chain import read_log, read_metadata
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.create_dataset import create_dataset, delete_dataset
from odfabric.usecases.events.job_events import job_events
from odfabric.usecases.events.relay_outbox import relay_outbox
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData, PushQueueLimits, accept_push
from odfabric.usecases.ingestion.run_push import committed_push
from odfabric.usecases.ingestion.staging import collect_staged
from odfabric.usecases.jobs.job_actor import trace_of_job
from odfabric.usecases.jobs.job_run import LeasedRun
from odfabric.usecases.jobs.jobs_of_subject import cancellable_job, seen_job
from odfabric.usecases.jobs.run_job import RetryRule, run_job
from odfabric.usecases.maintenance.collect_objects import CollectedPortion, Collection, CollectPorts, collect_objects
from odfabric.usecases.maintenance.rebuild import Listener, RebuildPorts, RebuiltDataset, rebuild
from odfabric.usecases.queries.query_data import QueryAnswer, QueryData, QueryLimits, query_data
from odfabric.usecases.queries.query_document import QueryForm, query_document
from odfabric.usecases.reading.read_tail import ReadTail, read_tail
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import measure_usage
from odfabric.usecases.state.read_state import ReadState, StatePorts, read_state
from odfabric.usecases.subscriptions.subscribe import NewSubscription
from odfabric.usecases.transfer.pull_dataset import PullRequest, enqueue_pull
from odfabric.usecases.transfer.serve_objects import ReferredObjects, ServedObject, serve_head, serve_object
from odfabric.usecases.transform.expected_columns import ExpectedColumns
from odfabric.usecases.verification.verify_dataset import VerifyOptions, enqueue_verify
from odfabric.wiring.audit import AuditVerbs
from odfabric.wiring.browsing import BrowseVerbs
from odfabric.wiring.cursors import cursor_verbs
from odfabric.wiring.duties import DutyVerbs
from odfabric.wiring.editing import EditVerbs
from odfabric.wiring.flows import flow_verbs
from odfabric.wiring.heartbeats import heartbeats
from odfabric.wiring.indexes import IndexVerbs
from odfabric.wiring.metrics import metrics_text, registry_of
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.people import account_quotas, people_ports
from odfabric.wiring.polling import permitted_sources, variable_verbs
from odfabric.wiring.searching import SearchVerbs
from odfabric.wiring.subscriptions import subscription_verbs
from odfabric.wiring.timings import Timings
from odfabric.wiring.tracing import traced_delivery
from odfabric.wiring.waiting import LOOK_EVERY_S, WAITING_JOBS_MAX, waited_for
from odfabric.wiring.work import JobWork

MEASURED_AT_ONCE_MAX = 100
"""Datasets of older releases of which one round of housekeeping finds out how much they store."""


class Node:
    """The verbs of a node, bound to its ports. Raises leaves of the closed error tree only."""

    def __init__(
        self,
        ports: NodePorts,
        settings: Settings,
        *,
        follow_heads: Callable[[], None] | None = None,
        timings: Timings | None = None,
    ) -> None:
        """`follow_heads` is given where other nodes move heads too: what is to be done now and then to hear of it.

        `timings` are those that other parts of this process tell, too.
        """
        self.settings, self.ports = settings, ports
        self.account = LOCAL_ACCOUNT
        self.token = ""
        # Of this process alone, unless it is one of several.
        self.sign_in_secret = secrets.token_bytes(32)
        self.timings = timings or Timings()
        self.registry = registry_of(ports.jobs, ports.clock, *self.timings.collectors)
        self.engine_known: Callable[[], EngineInfo | None] = lambda: None
        self.sweepers: Sequence[Callable[[], int]] = ()
        self.access = Access(
            policy=AccessPolicy(anonymous_read=settings.anonymous_read),
            accounts=ports.accounts,
            relations=ports.relations,
            catalog=ports.catalog,
        )
        self.people = people_ports(ports, self.access, settings)
        self.quotas = account_quotas(ports, settings)
        self.commits = self._commits(publishes=follow_heads is None)
        self._follow_heads = follow_heads
        self.repository = self._repository(ports.objects)
        self._referred = ReferredObjects(self.repository, names_max=self.settings.served_names_cached_max)
        self.cursors = cursor_verbs(
            settings,
            repository=self.repository,
            cursors=ports.cursors,
            exchange=ports.exchange,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        self._collection = Collection(self._collect_ports(), rest_s=settings.collect_every_s)
        self.indexes = self._index_verbs()
        self.audit = AuditVerbs(
            ports=ports,
            settings=settings,
            access=self.access,
            repository=self.repository,
            commits=self.commits,
            accept_push=lambda push, by: self.accept_push(push, by=by),
        )
        self.searching = SearchVerbs(repository=self.repository, documents=ports.search_documents)
        self.browsing = BrowseVerbs(access=self.access, jobs=ports.jobs, exchange=ports.exchange, seen_by=self.seen_by)
        self.editing = EditVerbs(
            ports=ports, settings=settings, access=self.access, commits=self.commits, seen_by=self.seen_by
        )
        self.flows = flow_verbs(ports, settings, repository=self.repository, access=self.access)
        self.variables = variable_verbs(ports, settings, access=self.access)
        self.duties = DutyVerbs(ports.duties, ports.clock)
        self.webhooks = subscription_verbs(ports, settings, access=self.access, repository=self.repository)
        self._verbs = self._job_work().verbs

    def _job_work(self) -> JobWork:
        stored = self.ports.stored
        return JobWork(
            ports=self.ports,
            settings=self.settings,
            access=self.access,
            quotas=self.quotas,
            repository=self.repository,
            stored=self._repository(stored) if stored else self.repository,
            commits=self.commits,
            indexes=self.indexes,
            variables=self.variables,
        )

    def _commits(self, *, publishes: bool) -> Commits:
        return Commits(
            chains=self.ports.chains,
            catalog=self.ports.catalog,
            objects=self.ports.objects,
            clock=self.ports.clock,
            attempts_max=self.settings.commit_attempts_max,
            block_bytes_max=self.settings.block_bytes_max,
            publishes=publishes,
        )

    def _index_verbs(self) -> IndexVerbs:
        settings, ports = self.settings, self.ports
        return IndexVerbs(
            settings=settings,
            index=ports.state_index,
            repository=self.repository,
            jobs=ports.jobs,
            exchange=ports.exchange,
            clock=ports.clock,
            entropy=ports.entropy,
            account=str(self.account),
            signals=ports.signals,
        )

    def _repository(self, objects: ObjectStore) -> Repository:
        return Repository(
            catalog=self.ports.catalog,
            chains=self.ports.chains,
            objects=objects,
            account=self.account,
            block_bytes_max=self.settings.block_bytes_max,
            states_cached_max=self.settings.chain_states_cached_max,
        )

    @property
    def manifest_limits(self) -> TextLimits:
        """How much of a manifest is read, in bytes, levels and values."""
        settings = self.settings
        return TextLimits(settings.manifest_bytes_max, settings.manifest_depth_max, settings.manifest_nodes_max)

    # datasets

    @property
    def operator(self) -> Subject:
        """The person at this process, who works as the account `local`. Raises NotFound before `odf init`."""
        return self.access.subject_later(str(LOCAL_ACCOUNT))

    def seen_by(self, subject: Subject) -> Repository:
        """The repository as a subject sees it."""
        name = subject.account.name if subject.account else LOCAL_ACCOUNT
        return self.repository.seen_through(self.access.seen_by(subject), name)

    def create(
        self, snapshot: DatasetSnapshot, subject: Subject, *, visibility: Visibility = Visibility.PRIVATE
    ) -> tuple[CatalogEntry, Multihash]:
        """Create a dataset; its entry and head."""
        created = create_dataset(
            snapshot,
            subject=subject,
            access=self.access,
            quotas=self.quotas,
            visibility=visibility,
            repository=self.seen_by(subject),
            commits=self.commits,
            keys=self.ports.keys,
            engine=self.ports.engine,
            exchange=self.ports.exchange,
            clock=self.ports.clock,
            column_name_bytes_max=self.settings.column_name_bytes_max,
            permitted=permitted_sources(self.settings),
        )
        self.ports.signals.send(Topic.OUTBOX)
        return created

    def expected_columns(self) -> ExpectedColumns:
        """The columns of datasets, of those without data too, each asked for once."""
        return ExpectedColumns(self.repository, self.ports.engine, self.ports.exchange, self.ports.clock.now())

    def delete(self, entry: CatalogEntry, *, by: Subject | None = None, if_match: Multihash | None = None) -> None:
        """Delete a dataset."""
        subject = by or self.operator
        delete_dataset(
            entry,
            subject=subject,
            access=self.access,
            repository=self.seen_by(subject),
            commits=self.commits,
            if_match=if_match,
        )
        self.ports.signals.send(Topic.OUTBOX)

    def resolve(self, ref: DatasetRef) -> CatalogEntry:
        """The dataset of a reference. Raises NotFound."""
        return self.repository.resolve(ref)

    def datasets(
        self, narrowed: Narrowing = EVERYTHING, *, by: Subject | None = None, after: DatasetAlias | None, limit: int
    ) -> Sequence[CatalogEntry]:
        """A page of the catalog."""
        catalog = self.access.seen_by(by or self.operator)
        return catalog.page(narrowed, after=after, limit=min(limit, self.settings.page_rows_max))

    def head(self, entry: CatalogEntry) -> Head:
        """The head of record."""
        return self.repository.head(entry.id)

    def log(self, entry: CatalogEntry, *, limit: int, start: Multihash | None = None) -> Iterator[ChainLink]:
        """Blocks, newest first."""
        return read_log(entry, repository=self.repository, blocks_max=limit, start=start)

    def metadata(self, entry: CatalogEntry, include: frozenset[str], schema_format: str) -> dict[str, object]:
        """Parts of the current metadata."""
        return read_metadata(entry, include, schema_format, repository=self.repository)

    def tail(self, entry: CatalogEntry, asked: ReadTail) -> dict[str, object]:
        """The last rows."""
        return read_tail(
            entry,
            asked,
            repository=self.repository,
            exchange=self.ports.exchange,
            rows_max=self.settings.tail_rows_max,
        )

    def state(self, entry: CatalogEntry, asked: ReadState) -> dict[str, object]:
        """The state as of a block or a time."""
        settings = self.settings
        ports = StatePorts(
            repository=self.repository,
            exchange=self.ports.exchange,
            index=self.indexes.used,
            rows_max=settings.tail_rows_max,
            state_rows_max=settings.state_rows_max,
            blocks_max=settings.chain_blocks_max,
        )
        return read_state(entry, asked, ports=ports)

    def served_head(self, entry: CatalogEntry) -> Multihash:
        """What `refs/head` answers."""
        return serve_head(entry, repository=self.repository)

    def served_object(self, entry: CatalogEntry, folder: str, name: Multihash) -> ServedObject:
        """A block, slice or checkpoint of this very dataset."""
        return serve_object(entry, folder, name, referred=self._referred, link_s=self.settings.object_link_s)

    # data

    def accept_push(self, request: PushData, *, by: Subject | None = None) -> Job | CommitResult:
        """Make a push durable; the job that commits it, or the result if its key was committed before."""
        accepted = accept_push(
            request,
            subject=by or self.operator,
            access=self.access,
            quotas=self.quotas,
            repository=self.repository,
            jobs=self.ports.jobs,
            objects=self.ports.objects,
            clock=self.ports.clock,
            entropy=self.ports.entropy,
            inline_bytes_max=self.settings.push_inline_bytes_max,
            queue=PushQueueLimits(
                per_dataset_max=self.settings.pushes_queued_per_dataset_max,
                per_account_max=self.settings.pushes_queued_per_account_max,
            ),
            staging_part=self.ports.own_part,
        )
        self.ports.signals.send(Topic.JOBS)
        return accepted

    def enqueue_pull(self, request: PullRequest, *, by: Subject | None = None) -> Job:
        """Queue a pull."""
        ports, subject = self.ports, by or self.operator
        job = enqueue_pull(request, subject=subject, jobs=ports.jobs, clock=ports.clock, entropy=ports.entropy)
        ports.signals.send(Topic.JOBS)
        return job

    def enqueue_verify(self, entry: CatalogEntry, options: VerifyOptions, *, by: Subject | None = None) -> Job:
        """Queue a verification."""
        ports, subject = self.ports, by or self.operator
        job = enqueue_verify(
            entry,
            options,
            head=self.head(entry).hash,
            subject=subject,
            jobs=ports.jobs,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        ports.signals.send(Topic.JOBS)
        return job

    @contextmanager
    def query(
        self,
        request: QueryData,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
    ) -> Iterator[QueryAnswer]:
        """Run a query; its answer file lives as long as the context."""
        settings = self.settings
        limits = QueryLimits(
            text_bytes_max=settings.query_text_bytes_max,
            rows_max=settings.query_rows_max,
            bytes_max=settings.query_bytes_max,
            wall_s_max=settings.query_wall_s_max,
        )
        with self.ports.exchange.session() as folder:
            yield query_data(
                request,
                folder,
                repository=self.seen_by(by or self.operator),
                engine=self.ports.engine,
                exchange=self.ports.exchange,
                limits=limits,
                progress=progress,
            )

    def query_document(
        self,
        request: QueryData,
        form: QueryForm,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
    ) -> dict[str, object]:
        """Run a query; its answer as a JSON value. `progress` is called at least once a second, and ends the query by raising."""
        form.check()
        with self.query(request, progress, by=by) as answer:
            return query_document(request, form, answer)

    # subscriptions

    def subscribe(
        self, entry: CatalogEntry, *, by: Subject | None = None, url: str, secret: bytes | None
    ) -> NewSubscription:
        """Subscribe a webhook."""
        return self.webhooks.subscribe(entry, by=by or self.operator, url=url, secret=secret)

    def unsubscribe(self, entry: CatalogEntry, subscription_id: str, *, by: Subject | None = None) -> None:
        """End a subscription. Raises NotFound."""
        self.webhooks.unsubscribe(entry, subscription_id, by=by or self.operator)

    def subscriptions(self, entry: CatalogEntry, *, by: Subject | None = None) -> Sequence[Subscription]:
        """Subscriptions of a dataset that the subject may see."""
        return self.webhooks.seen(entry, by=by or self.operator)

    def deliveries(self, entry: CatalogEntry, subscription_id: str, *, by: Subject | None = None) -> Sequence[Delivery]:
        """The delivery log of a subscription of this dataset, newest first. Raises NotFound."""
        return self.webhooks.deliveries(entry, subscription_id, by=by or self.operator)

    # jobs

    def job(self, job_id: str, *, by: Subject | None = None) -> Job:
        """A job that the subject may see. Raises NotFound."""
        return seen_job(job_id, subject=by or self.operator, access=self.access, jobs=self.ports.jobs)

    def cancel_job(self, job_id: str, *, by: Subject | None = None) -> Job:
        """Cancel a job that is not final. Raises NotFound, AccessDenied for a token that could not have asked for it."""
        cancellable_job(job_id, subject=by or self.operator, access=self.access, jobs=self.ports.jobs)
        found = self.ports.jobs.cancel(job_id, now=self.ports.clock.now())
        if found is None:
            raise NotFound("job", job_id)
        return found

    def lease_job(self, worker: str, *, lane: Lane | None = None) -> LeasedRun | None:
        """Take the next job that is ready, of `lane` alone if one is given."""
        lease_ms = self._lease_ms()
        lease = self.ports.jobs.lease(worker, now=self.ports.clock.now(), lease_ms=lease_ms, lane=lane)
        if lease is None:
            return None
        self.timings.job_leased(lease.job, self.ports.clock.now())
        return LeasedRun(lease, jobs=self.ports.jobs, clock=self.ports.clock, lease_ms=lease_ms)

    def give_back_jobs(self, worker: str) -> int:
        """Put back what a worker held that is known to be dead; how many jobs."""
        return self.ports.jobs.give_back(worker, now=self.ports.clock.now())

    def _lease_towards(self, job: Job, worker: str) -> LeasedRun | None:
        """This job, or an older one of its dataset that keeps it waiting: left behind by a command that was killed.

        Pulls that were asked of a node are left to it: they have other rights to files than a person at the command line.
        """
        lease_ms = self._lease_ms()
        older = self.ports.jobs.page(dataset=job.dataset_id, unfinished_only=True, limit=WAITING_JOBS_MAX)
        for candidate in (job, *reversed(older)):
            asked_of_node = candidate.kind is JobKind.PULL and json.loads(candidate.request)["folderOfUser"] is None
            if candidate.id != job.id and asked_of_node:
                continue
            lease = self.ports.jobs.lease_one(candidate.id, worker, now=self.ports.clock.now(), lease_ms=lease_ms)
            if lease is not None:
                return LeasedRun(lease, jobs=self.ports.jobs, clock=self.ports.clock, lease_ms=lease_ms)
        return None

    def run_job(self, run: LeasedRun) -> None:
        """Run a leased job to its end, keeping the lease while the engine works in silence."""
        settings = self.settings
        pauses = (settings.job_retry_s, settings.job_retry_s_max, settings.job_retry_after_s_max)
        retry = RetryRule(settings.job_attempts_max, *pauses)
        job = run.lease.job
        dataset = str(job.dataset_id) if job.dataset_id is not None else None
        with (
            working_on(job=job.id, dataset=dataset),
            span(f"job {job.kind.value}", within=trace_of_job(job)),
            heartbeats(run, every_s=settings.lease_s / 3),
            self.timings.job_run(job),
        ):
            run_job(
                run,
                verbs=self._verbs,
                committed=lambda job: committed_push(job, repository=self.repository, commits=self.commits),
                jobs=self.ports.jobs,
                objects=self.ports.objects,
                clock=self.ports.clock,
                retry=retry,
                reported=partial(job_events, repository=self.repository, clock=self.ports.clock),
            )
        # It may have committed, and another job of its dataset may be ready now.
        self.ports.signals.send(Topic.OUTBOX)
        self.ports.signals.send(Topic.JOBS)
        self.ports.signals.send(Topic.FLOWS)

    def work_until_ended(self, job: Job, *, worker: str, listener: Callable[[Mapping[str, object]], None]) -> Job:
        """Do this job, and what it waits for, until it has ended; others may be doing it too. Returns it as it ended."""
        while not job.status.final:
            run = self._lease_towards(job, worker)
            if run is not None:
                run.listener = listener
                self.run_job(run)
            else:
                time.sleep(LOOK_EVERY_S)
            job = self.job(job.id)
            listener(waited_for(job, jobs=self.ports.jobs, lease_s=self.settings.lease_s))
        return job

    # background work

    def relay_outbox(self) -> int:
        """Handle commits' consequences, those of other nodes too where these share the objects; how many messages."""
        if self._follow_heads is not None:
            self._follow_heads()
        followers = (self.flows.follow, self.indexes.follow, self.searching.follow)
        handled = relay_outbox(
            outbox=self.ports.outbox,
            commits=self.commits,
            repository=self.repository,
            filters=self.webhooks.filters,
            clock=self.ports.clock,
            followers=followers,
        )
        for topic in (Topic.DELIVERIES, Topic.HEADS) if handled else ():
            self.ports.signals.send(topic)
        return handled

    def due_deliveries(self, worker: str, *, limit: int) -> Sequence[Delivery]:
        """Lease at most `limit` deliveries to be sent now."""
        return self.webhooks.due(worker, limit=limit)

    def deliver(self, delivery: Delivery) -> None:
        """Make one attempt at a leased delivery."""
        is_delivered = traced_delivery(delivery, lambda: self.webhooks.deliver(delivery))
        self.timings.webhook_attempt(delivery, is_delivered=is_delivered, now=self.ports.clock.now())

    def health(self) -> dict[str, object]:
        """Whether database and objects answer; the engine is named apart, because reading does not need it."""
        parts = {"database": self._answers(lambda: self.ports.jobs.page(limit=1))}
        parts["objects"] = self._answers(lambda: self.ports.objects.stat("health"))
        return {"ok": all(parts.values()), "parts": parts}

    @staticmethod
    def _answers(ask: Callable[[], object]) -> bool:
        try:
            ask()
        except OdfError:
            return False
        return True

    def rebuild(self, *, adopt: bool, listener: Listener = lambda stage, done, total: None) -> Iterator[RebuiltDataset]:
        """Take what the object store has back into the database, dataset by dataset."""
        ports = RebuildPorts(
            repository=self.repository,
            commits=self.commits,
            exchange=self.ports.exchange,
            clock=self.ports.clock,
            blocks_max=self.settings.chain_blocks_max,
            page_blocks_max=self.settings.rebuild_page_blocks_max,
        )
        return rebuild(ports=ports, adopt=adopt, listener=listener)

    def metrics(self) -> bytes:
        """What this process tells about itself, in the text format of Prometheus."""
        return metrics_text(self.registry)

    def keep_house(self) -> int:
        """Remove leftovers, old entries of the audit's log and some objects that no chain names; how many.

        Where other nodes commit too, objects that no chain names stay: no lock keeps those nodes away.
        """
        measure_usage(usage=self.ports.usage, repository=self.repository, datasets_max=MEASURED_AT_ONCE_MAX)
        return (
            self.remove_leftovers()
            + self.audit.forget()
            + self.webhooks.drop_old_secrets()
            + self.webhooks.forget_signing_keys()
            + (self._collection.step() if self._follow_heads is None else 0)
        )

    def remove_leftovers(self) -> int:
        """Remove abandoned uploads and what dead processes left behind (`sweepers`), once they are old enough; how many."""
        ports, lifetime_s = self.ports, self.settings.staged_lifetime_s
        staged = collect_staged(
            objects=ports.objects, jobs=ports.jobs, clock=ports.clock, lifetime_s=lifetime_s, part=ports.own_part
        )
        return staged + sum(sweep() for sweep in self.sweepers)

    def collect(self, *, dry_run: bool) -> Iterator[CollectedPortion]:
        """A whole round of collecting objects that no chain names."""
        return collect_objects(ports=self._collect_ports(), dry_run=dry_run)

    def _collect_ports(self) -> CollectPorts:
        return CollectPorts(
            repository=self.repository,
            removed=self.ports.removed,
            cursors=self.ports.cursors,
            jobs=self.ports.jobs,
            clock=self.ports.clock,
            lifetime_s=self.settings.garbage_lifetime_s,
            portion_max=self.settings.collect_portion_max,
        )

    def _lease_ms(self) -> int:
        return int(self.settings.lease_s * 1000)

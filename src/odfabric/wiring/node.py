"""A node: groups of verbs bound to its ports, for services and the command line.

Owns nothing but the binding. What a group does is in the module of its class; what all share is `NodeCore`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from odfabric.domain.people.access import LOCAL_ACCOUNT, AccessPolicy, Subject
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.formats.operations.verification_report import signed_report
from odfabric.model.engine import EngineInfo
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.settings import Settings
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.head_signing import HeadSigning
from odfabric.usecases.heads.head_writer import HeadWriter
from odfabric.usecases.heads.publish_log import LogPublisher
from odfabric.usecases.heads.sign_resting import RestingHeads
from odfabric.usecases.rights.access import Access
from odfabric.wiring.datasets.browsing import BrowseVerbs
from odfabric.wiring.datasets.dataset_verbs import DatasetVerbs
from odfabric.wiring.datasets.editing import EditVerbs
from odfabric.wiring.datasets.explaining import ProvenanceVerbs
from odfabric.wiring.datasets.heads import HeadVerbs
from odfabric.wiring.datasets.history import HistoryVerbs
from odfabric.wiring.datasets.reports import ReportVerbs
from odfabric.wiring.datasets.rows import RowVerbs
from odfabric.wiring.datasets.searching import SearchVerbs
from odfabric.wiring.datasets.serving import ServingVerbs
from odfabric.wiring.events.cursors import cursor_verbs
from odfabric.wiring.events.subscriptions import subscription_verbs
from odfabric.wiring.jobs.flows import flow_verbs
from odfabric.wiring.jobs.indexes import IndexVerbs
from odfabric.wiring.jobs.requests import RequestVerbs
from odfabric.wiring.jobs.running import JobVerbs
from odfabric.wiring.jobs.work import JobWork
from odfabric.wiring.monitoring.metrics import registry_of
from odfabric.wiring.monitoring.status import StatusVerbs
from odfabric.wiring.monitoring.timings import Timings
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.people.accounts import account_quotas, people_ports
from odfabric.wiring.people.audit import AuditVerbs
from odfabric.wiring.sources.polling import variable_verbs
from odfabric.wiring.transfer.sharing import SharingVerbs
from odfabric.wiring.upkeep.background import RESTING_HEADS_MAX, BackgroundVerbs
from odfabric.wiring.upkeep.duties import DutyVerbs
from odfabric.wiring.upkeep.objects import ObjectVerbs


class Node:
    """The verbs of a node by group, bound to its ports.

    They raise leaves of the closed error tree only.
    """

    def __init__(
        self,
        ports: NodePorts,
        settings: Settings,
        *,
        follow_heads: Callable[[], None] | None = None,
        timings: Timings | None = None,
    ) -> None:
        """`follow_heads` learns of heads that other nodes moved; it is called at times.

        `timings` are given where other parts of this process measure, too.
        """
        self.settings, self.ports = settings, ports
        self.account = LOCAL_ACCOUNT
        self.token = ""
        # Of this process alone, unless it is one of several.
        self.sign_in_secret = secrets.token_bytes(32)
        self.timings = timings or Timings()
        self.engine_known: Callable[[], EngineInfo | None] = lambda: None
        self.core = core = self._core(publishes=follow_heads is None)
        self.access, self.quotas, self.repository, self.commits = (
            core.access,
            core.quotas,
            core.repository,
            core.commits,
        )
        self._bind_people()
        self._bind_datasets()
        self._bind_work()
        self._bind_upkeep(follow_heads)

    @property
    def operator(self) -> Subject:
        """The person at this process, account `local`. Raises NotFound before `odf init`."""
        return self.core.operator

    def seen_by(self, subject: Subject) -> Repository:
        """The repository as a subject sees it."""
        return self.core.seen_by(subject)

    @property
    def manifest_limits(self) -> TextLimits:
        """How much of a manifest is read, in bytes, levels and values."""
        settings = self.settings
        return TextLimits(settings.manifest_bytes_max, settings.manifest_depth_max, settings.manifest_nodes_max)

    def _bind_people(self) -> None:
        ports, settings, core = self.ports, self.settings, self.core
        self.requests = RequestVerbs(core)
        self.people = people_ports(ports, core.access, settings)
        self.audit = AuditVerbs(
            ports=ports,
            settings=settings,
            access=core.access,
            repository=core.repository,
            commits=core.commits,
            accept_push=lambda push, by: self.requests.push(push, by=by),
        )
        self.webhooks = subscription_verbs(ports, settings, access=core.access, repository=core.repository)

    def _bind_datasets(self) -> None:
        ports, settings, core = self.ports, self.settings, self.core
        self.indexes = self._index_verbs()
        self.datasets = DatasetVerbs(core)
        self.rows = RowVerbs(core=core, index=self.indexes.used)
        self.provenance = ProvenanceVerbs(core)
        self.serving = ServingVerbs(core)
        self.history = HistoryVerbs(core)
        self.heads = HeadVerbs(core)
        self.reports = ReportVerbs(core)
        self.searching = SearchVerbs(repository=core.repository, documents=ports.search_documents)
        self.browsing = BrowseVerbs(access=core.access, jobs=ports.jobs, exchange=ports.exchange, seen_by=core.seen_by)
        self.editing = EditVerbs(
            ports=ports, settings=settings, access=core.access, commits=core.commits, seen_by=core.seen_by
        )
        self.cursors = cursor_verbs(
            settings,
            repository=core.repository,
            cursors=ports.cursors,
            exchange=ports.exchange,
            clock=ports.clock,
            entropy=ports.entropy,
        )

    def _bind_work(self) -> None:
        ports, settings, core = self.ports, self.settings, self.core
        self.flows = flow_verbs(ports, settings, repository=core.repository, access=core.access)
        self.variables = variable_verbs(ports, settings, access=core.access)
        self.sharing = SharingVerbs(core)
        work = JobWork(
            core=core,
            stored=self._repository(ports.stored) if ports.stored else core.repository,
            indexes=self.indexes,
            variables=self.variables,
            sharing=self.sharing,
            sign=lambda members: signed_report(members, private=self.webhooks.signature.private_key()),
        )
        self.smart = work.smart(self.serving.referred)
        self.jobs = JobVerbs(core=core, timings=self.timings, verbs=work.verbs)

    def _bind_upkeep(self, follow_heads: Callable[[], None] | None) -> None:
        ports, core = self.ports, self.core
        self.duties = DutyVerbs(ports.duties, ports.clock)
        self.objects = ObjectVerbs(core)
        self.background = BackgroundVerbs(
            core=core,
            audit=self.audit,
            webhooks=self.webhooks,
            objects=self.objects,
            resting=RestingHeads(
                signing=core.heads, age_s=self.settings.head_signature_s_max, datasets_max=RESTING_HEADS_MAX
            ),
            timings=self.timings,
            followers=(self.flows.follow, self.indexes.follow, self.searching.follow),
            follow_heads=follow_heads,
        )
        self.status = StatusVerbs(core=core, registry=registry_of(ports.jobs, ports.clock, *self.timings.collectors))

    def _core(self, *, publishes: bool) -> NodeCore:
        ports, settings, signing = self.ports, self.settings, self._signing()
        return NodeCore(
            heads=signing,
            ports=ports,
            settings=settings,
            access=Access(
                policy=AccessPolicy(anonymous_read=settings.anonymous_read),
                accounts=ports.accounts,
                relations=ports.relations,
                catalog=ports.catalog,
            ),
            quotas=account_quotas(ports, settings),
            repository=self._repository(ports.objects),
            commits=Commits(
                chains=ports.chains,
                catalog=ports.catalog,
                objects=ports.objects,
                clock=ports.clock,
                attempts_max=settings.commit_attempts_max,
                block_bytes_max=settings.block_bytes_max,
                publishes=publishes,
                signing=signing,
            ),
        )

    def _signing(self) -> HeadSigning:
        ports = self.ports
        writer = HeadWriter(
            logs=ports.head_logs, keys=ports.keys, catalog=ports.catalog, chains=ports.chains, clock=ports.clock
        )
        publisher = LogPublisher(
            writer, objects=ports.objects, clock=ports.clock, signature_s=self.settings.head_signature_s
        )
        return HeadSigning(writer=writer, publisher=publisher, catalog=ports.catalog)

    def _repository(self, objects: ObjectStore) -> Repository:
        return Repository(
            catalog=self.ports.catalog,
            chains=self.ports.chains,
            objects=objects,
            account=self.account,
            block_bytes_max=self.settings.block_bytes_max,
            states_cached_max=self.settings.chain_states_cached_max,
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

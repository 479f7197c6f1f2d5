"""What workers do unasked, bound to a node's ports.

Consequences of commits, deliveries, leftovers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odfabric.model.identity import DatasetId
from odfabric.model.subscriptions.subscription import Delivery
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.events.relay_outbox import relay_outbox
from odfabric.usecases.heads.sign_resting import RestingHeads
from odfabric.usecases.ingestion.sent_parts import abort_abandoned
from odfabric.usecases.ingestion.staging import STAGING_PREFIX, collect_staged
from odfabric.usecases.rights.account_quotas import measure_usage
from odfabric.wiring.events.subscriptions import SubscriptionVerbs
from odfabric.wiring.monitoring.timings import Timings
from odfabric.wiring.monitoring.tracing import traced_delivery
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.people.audit import AuditVerbs
from odfabric.wiring.upkeep.objects import ObjectVerbs

RESTING_HEADS_MAX = 1_000
"""Datasets whose signatures one round of housekeeping looks at."""
MEASURED_AT_ONCE_MAX = 100
"""Datasets of older releases of which one round of housekeeping finds out how much they store."""


@dataclass(slots=True, kw_only=True)
class BackgroundVerbs:
    """Rounds of a worker.

    `followers` read every commit; `follow_heads` is given where other nodes move heads too.

    `sweepers` remove what dead processes left behind and return how many things that were; `embedded` knows them.
    """

    core: NodeCore
    audit: AuditVerbs
    webhooks: SubscriptionVerbs
    objects: ObjectVerbs
    resting: RestingHeads
    timings: Timings
    followers: Sequence[Callable[[DatasetId], object]]
    follow_heads: Callable[[], None] | None
    sweepers: Sequence[Callable[[], int]] = ()

    def relay_outbox(self) -> int:
        """Act on commits, those of other nodes on the objects too; how many messages."""
        core = self.core
        if self.follow_heads is not None:
            self.follow_heads()
        handled = relay_outbox(
            outbox=core.ports.outbox,
            commits=core.commits,
            repository=core.repository,
            filters=self.webhooks.filters,
            clock=core.ports.clock,
            followers=self.followers,
        )
        for topic in (Topic.DELIVERIES, Topic.HEADS) if handled else ():
            core.ports.signals.send(topic)
        return handled

    def due_deliveries(self, worker: str, *, limit: int) -> Sequence[Delivery]:
        """Lease at most `limit` deliveries to be sent now."""
        return self.webhooks.due(worker, limit=limit)

    def deliver(self, delivery: Delivery) -> None:
        """Make one attempt at a leased delivery."""
        is_delivered = traced_delivery(delivery, lambda: self.webhooks.deliver(delivery))
        self.timings.webhook_attempt(delivery, is_delivered=is_delivered, now=self.core.ports.clock.now())

    def keep_house(self) -> int:
        """Remove leftovers, old audit log entries, some unnamed objects; how many.

        Heads that rest are signed again when their signature is old.

        Where other nodes commit too, objects that no chain names stay: no lock keeps those nodes away.
        """
        core = self.core
        measure_usage(usage=core.ports.usage, repository=core.repository, datasets_max=MEASURED_AT_ONCE_MAX)
        self.resting.step()
        return (
            self.remove_leftovers()
            + self.audit.forget()
            + self.webhooks.drop_old_secrets()
            + self.webhooks.forget_signing_keys()
            + (self.objects.collect_some() if self.follow_heads is None else 0)
        )

    def remove_leftovers(self) -> int:
        """Remove old abandoned uploads and leftovers of dead processes; how many."""
        ports, lifetime_s = self.core.ports, self.core.settings.staged_lifetime_s
        staged = collect_staged(
            objects=ports.objects, jobs=ports.jobs, clock=ports.clock, lifetime_s=lifetime_s, part=ports.own_part
        )
        if ports.part_uploads is not None:
            staged += abort_abandoned(
                parts=ports.part_uploads,
                clock=ports.clock,
                prefix=STAGING_PREFIX + ports.own_part,
                lifetime_s=lifetime_s,
            )
        return staged + sum(sweep() for sweep in self.sweepers)

"""Rewriting history, bound to a node's ports: reset, compact, watermarks."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import CompactRequest
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import Rewrite
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.chain.rewrite_records import rewrites
from odfabric.usecases.history.compact_dataset import enqueue_compact
from odfabric.usecases.history.reset_dataset import ResetDone, plan_reset, reset_dataset
from odfabric.usecases.history.rewritten_inputs import RewrittenInput
from odfabric.usecases.history.set_watermark import WatermarkSet, set_watermark
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class HistoryVerbs:
    """Verbs that rewrite the history of a dataset, each for one subject."""

    core: NodeCore

    def plan_reset(self, entry: CatalogEntry, to: Multihash | int) -> ResetDone:
        """What a reset would drop, now. Raises NotFound."""
        return plan_reset(entry, to, repository=self.core.repository)

    def reset(
        self, entry: CatalogEntry, to: Multihash | int, *, expected: Multihash, by: Subject | None = None
    ) -> ResetDone:
        """Move a head back. Raises as `usecases.history.reset_dataset`."""
        core = self.core
        done = reset_dataset(
            entry,
            to,
            expected=expected,
            subject=by or core.operator,
            access=core.access,
            repository=core.repository,
            commits=core.commits,
        )
        core.ports.signals.send(Topic.OUTBOX)
        return done

    def compact(self, entry: CatalogEntry, request: CompactRequest, *, by: Subject | None = None) -> Job:
        """Queue a compaction. Raises AccessDenied, InvalidRequest."""
        core, subject = self.core, by or self.core.operator
        ports = core.ports
        job = enqueue_compact(
            entry,
            request,
            subject=subject,
            access=core.access,
            signs=core.heads.writer,
            jobs=ports.jobs,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        ports.signals.send(Topic.JOBS)
        return job

    def set_watermark(
        self, entry: CatalogEntry, watermark: Instant, *, force: bool = False, by: Subject | None = None
    ) -> WatermarkSet:
        """Set the watermark of a root dataset, with `force` also far ahead."""
        core = self.core
        done = set_watermark(
            entry,
            watermark,
            force=force,
            ahead_s_max=core.settings.watermark_ahead_s_max,
            subject=by or core.operator,
            access=core.access,
            repository=core.repository,
            commits=core.commits,
            clock=core.ports.clock,
        )
        core.ports.signals.send(Topic.OUTBOX)
        return done

    def rewrites(self, entry: CatalogEntry) -> list[Rewrite]:
        """The recorded rewrites of a dataset, newest first."""
        return rewrites(entry.id, objects=self.core.ports.objects)

    def rewritten_inputs(self, entry: CatalogEntry, *, by: Subject | None = None) -> list[RewrittenInput]:
        """Inputs of a derivative that were rewritten after it had read them."""
        return self.core.histories(self.core.seen_by(by or self.core.operator)).rewritten(entry)

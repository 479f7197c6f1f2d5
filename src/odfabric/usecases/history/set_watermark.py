"""Set the watermark of a root dataset without rows.

Invariant: a watermark never goes back, so one that is not later changes nothing, and one far ahead takes the right to rewrite history; offsets
and the state of sources stay.
Source: specification, "Watermark"; RFC-014.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.append import link_blocks, next_system_time
from odfabric.domain.ingestion.ingest_plan import plan_add_data
from odfabric.domain.ingestion.watermark import check_not_far_ahead
from odfabric.domain.people.access import Action, Subject
from odfabric.domain.sources.polled_content import polled_attributes, polled_content
from odfabric.errors import InvalidRequest
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSet:
    """The watermark in force; `moved`: it is later than the one before."""

    entry: CatalogEntry
    watermark: Instant | None
    moved: bool

    def to_value(self, head: Head) -> dict[str, object]:
        """As JSON, `head` being the dataset's."""
        return {
            "id": str(self.entry.id),
            "alias": str(self.entry.alias),
            "head": str(head.hash),
            "watermark": None if self.watermark is None else str(self.watermark),
            "upToDate": not self.moved,
        }


def set_watermark(
    entry: CatalogEntry,
    watermark: Instant,
    *,
    force: bool,
    ahead_s_max: float,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
    clock: Clock,
) -> WatermarkSet:
    """Say that all rows up to a time are there.

    With `force` also of a time that is more than `ahead_s_max` seconds ahead.

    Raises AccessDenied, InvalidRequest for a derivative, a copy or a time far ahead, Determinate, Indeterminate.
    """
    access.require(subject, Action.REWRITE if force else Action.WRITE, entry)
    if entry.kind is not DatasetKind.ROOT:
        raise InvalidRequest(
            f"{entry.alias} is computed: its watermark is that of its inputs", hint="set the watermark of an input"
        )
    if entry.is_copy:
        raise InvalidRequest(f"{entry.alias} is a copy", hint="its owner sets the watermark, and a pull brings it here")

    if not force:
        check_not_far_ahead(watermark, now=clock.now(), ahead_s_max=ahead_s_max)

    def build(base: Head) -> PlannedCommit | None:
        state = repository.state(entry.id, base.hash)
        # The next poll compares with what the newest block says of the file that was read last.
        polled = polled_content(state.add_data.event.extra) if state.add_data else None
        events = plan_add_data(
            state,
            data_schema=None,
            new_data=None,
            max_event_time=None,
            explicit_watermark=watermark,
            attributes=polled_attributes(polled),
        )
        if not events:
            return None
        return PlannedCommit(tuple(link_blocks(state, events, system_time=next_system_time(state, now=clock.now()))))

    committed = commits.commit(entry.id, build, by=[subject.actor])
    _, state = repository.current(entry.id)
    return WatermarkSet(entry=entry, watermark=state.watermark, moved=committed is not None)

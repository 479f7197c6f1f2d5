"""Where in its file or push a record of a root was, as far as that can be known.

Invariant: nothing is guessed. A block keeps records in order of event time, equal times in the order in which they came, and does not keep
their places. The place follows only where nothing was between: Append, no query, no step of preparation, no rejected row, and one event
time for all records of the block. Elsewhere only the file or push is named. A block without any attribute or state of ours may come from
a node that orders rows otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.domain.ingestion.row_changes import rejected_rows
from odfabric.domain.sources.polled_content import POLLED_BEFORE, PolledContent, polled_content
from odfabric.model.metadata import AddData, AddPushSource, SetPollingSource
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.source import MergeStrategyAppend, MergeStrategySnapshot, MergeStrategyUpsertStream

Source = AddPushSource | SetPollingSource

_WITHDRAWS = (MergeStrategySnapshot, MergeStrategyUpsertStream)
"""Merges that write the row which a key had before: no file has it."""
_ORDER_UNKNOWN = "the block does not say which software put them in order; one of a push with an Idempotency-Key does"
_WITHDRAWN = {OperationType.RETRACT: "taken back", OperationType.CORRECT_FROM: "replaced"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInSource:
    """What is known of a place, and `message` in words.

    `record` counts from 1 among `records`; None where it is not known.
    """

    message: str
    record: int | None = None
    records: int | None = None


def place_in_source(
    offset: int, op: OperationType, event: AddData, source: Source | None, *, one_event_time: bool
) -> PlaceInSource:
    """The place of the record at `offset` of a block that was made from `source`.

    `one_event_time`: all records of the block have the same.
    """
    name = _name(event, source)
    if op in _WITHDRAWN and source is not None and isinstance(source.merge, _WITHDRAWS):
        return PlaceInSource(message=f"the earlier row of its key, {_WITHDRAWN[op]} by {name}")
    reason = _reason(event, source, one_event_time=one_event_time)
    if reason is not None or event.new_data is None:
        return PlaceInSource(message=f"one of the records of {name}: {reason}")
    interval = OffsetRange.from_wire(event.new_data.offset_interval)
    place = offset - interval.begin + 1
    return PlaceInSource(
        message=f"record {place} of the {interval.rows} of {name}", record=place, records=interval.rows
    )


def _reason(event: AddData, source: Source | None, *, one_event_time: bool) -> str | None:
    """Why the place is not known, None if it is."""
    attributes = attributes_of(event.extra)
    if source is None:
        return "the chain does not say how it was read"
    if source.preprocess is not None:
        return "a query of the source comes between"
    if isinstance(source, SetPollingSource) and source.prepare:
        return "a step of preparation comes between"
    if not isinstance(source.merge, MergeStrategyAppend):
        return "they are compared with earlier ones, so not each becomes a record here"
    if rejected_rows(attributes) is not None:
        return "rows of it were rejected"
    if POLLED_BEFORE in attributes:
        return "the block was made of several"
    rows = event.new_data
    if rows is not None and OffsetRange.from_wire(rows.offset_interval).rows == 1:
        return None
    if not one_event_time:
        return "the block has them in order of event time"
    return None if _is_ours(event, attributes) else _ORDER_UNKNOWN


def _is_ours(event: AddData, attributes: Mapping[str, Any]) -> bool:
    state = event.new_source_state
    marked = any(name.startswith("odfabric.dev/") for name in attributes)
    return marked or (state is not None and state.kind.startswith("odfabric/"))


def _name(event: AddData, source: Source | None) -> str:
    attributes: Mapping[str, Any] = attributes_of(event.extra)
    polled = polled_content(event.extra)
    if POLLED_BEFORE in attributes:
        return f"the files up to {_file(polled)}" if polled is not None else "several files"
    if polled is not None:
        return _file(polled)
    state = event.new_source_state
    if not isinstance(source, SetPollingSource) or state is None:
        # A push without a key repeats the state of an earlier one, or of a source that was polled before.
        return "what was pushed in this block" if source is not None else "what this block took in"
    return f"the file of source state {state.kind.rpartition('/')[2]} {state.value}"


def _file(polled: PolledContent) -> str:
    return f"file {polled.name}" if polled.name is not None else f"the file of content {polled.content}"

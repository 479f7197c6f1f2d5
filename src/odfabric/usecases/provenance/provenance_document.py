"""The answer to why records are there, as a JSON value.

Owns its members. Records come in the order in which they were visited, each once; rows of inputs refer to them by dataset and offset. Of
datasets that the caller may not read there is the identity, which the transform names anyway, and a count. Source: docs/openapi.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from odfabric.domain.sources.polled_content import ATTRIBUTE, polled_attributes
from odfabric.errors import InvalidRequest, Place
from odfabric.formats.manifests.manifest_events import noun_to_value
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import ExecuteTransformInput, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import ProvenanceKind
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.replay_query import AliasOf, replay_query
from odfabric.usecases.provenance.trace_records import Cell, End, Explanation, RowsOfInput, Trace, Visited, WhyAsked

DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True)
class WhyCursor:
    """Where a page of an answer begins: after `skip` rows of each input.

    `digest` says of which answer.
    """

    digest: str
    skip: int

    def __str__(self) -> str:
        return f"{self.digest}-{self.skip}"


def queries_of(transform: TransformSql) -> list[str]:
    """The statements of a transform, as an answer has them."""
    return [step.query for step in transform.queries or ()] or [transform.query or ""]


def parse_why_cursor(text: str, *, field: str = "after") -> WhyCursor:
    """From the text that an answer gave as `next`. Raises InvalidRequest."""
    digest, _, skip = text.partition("-")
    if len(digest) != DIGEST_DIGITS or not skip.isascii() or not skip.isdecimal() or len(skip) > DIGEST_DIGITS:
        raise InvalidRequest("no cursor of an answer", place=Place(field=field), hint="take `next` of the page before")
    return WhyCursor(digest, int(skip))


def why_document(
    entry: CatalogEntry, asked: WhyAsked, trace: Trace, *, seen: Repository, values: bool, after: WhyCursor | None
) -> dict[str, object]:
    """The answer; `values` says whether rows come along.

    Raises InvalidRequest if `after` is a page of another answer.
    """
    digest = _digest(entry, asked, trace)
    if after is not None and after.digest != digest:
        raise InvalidRequest(
            "the answer is another one than that of the page before",
            place=Place(field="after"),
            hint="ask from the start",
        )
    more = any(_rest(one, asked) for one in trace.visited)

    @cache
    def alias_of(dataset: DatasetId) -> str | None:
        found = seen.find(dataset)
        return None if found is None else str(found.alias)

    return {
        "dataset": str(entry.id),
        "asked": list(asked.offsets),
        "columns": list(asked.columns),
        "kinds": [kind.name.lower() for kind in ProvenanceKind if kind in asked.kinds],
        "effort": asked.effort.name.lower(),
        "skip": asked.skip,
        "records": [_record_value(one, alias_of, values=values) for one in trace.visited],
        "datasets": _datasets(trace.visited, seen),
        "cost": {
            "derivations": trace.calls,
            "rowsRead": trace.rows_read,
            "engineJobs": trace.jobs,
            "evaluations": trace.evaluations,
        },
        "leftOut": trace.left_out,
        "next": str(WhyCursor(digest, asked.skip + asked.limit)) if more else None,
    }


def _rest(one: Visited, asked: WhyAsked) -> bool:
    """Whether a record that was asked for has rows behind this page."""
    if one.depth or one.explanation is None:
        return False
    rows = (*one.explanation.witnesses, *one.explanation.trigger)
    return any(each.readable and each.count > asked.skip + asked.limit for each in rows)


def _digest(entry: CatalogEntry, asked: WhyAsked, trace: Trace) -> str:
    """Differs between answers whose pages do not go together."""
    parts: list[object] = [str(entry.id), asked.effort.name, asked.limit, list(asked.columns), list(asked.offsets)]
    for one in trace.visited:
        if one.depth == 0 and one.explanation is not None:
            rows = (*one.explanation.witnesses, *one.explanation.trigger)
            parts.append([str(one.link.hash), [(each.input, each.count, _ranges(each.ranges)) for each in rows]])
    return hashlib.sha3_256(json.dumps(parts).encode()).hexdigest()[:DIGEST_DIGITS]


def _record_value(one: Visited, alias_of: AliasOf, *, values: bool) -> dict[str, object]:
    block = one.link.block
    value: dict[str, object] = {
        "dataset": str(one.ref.dataset),
        "offset": one.ref.offset,
        "op": one.record.op.word,
        "depth": one.depth,
        "block": {
            "hash": str(one.link.hash),
            "sequence": block.sequence_number,
            "systemTime": str(block.system_time),
        },
    }
    if values:
        value["values"] = dict(one.record.values)
        if one.before is not None:
            value["before"] = dict(one.before.values)
    if one.corrects is not None:
        value["corrects"] = one.corrects
    if one.explanation is not None:
        value["why"] = _why_value(one.explanation, alias_of)
    if one.end is not None:
        value["end"] = _end_value(one.end)
    return value


def _why_value(one: Explanation, alias_of: AliasOf) -> dict[str, object]:
    record = one.provenance
    value: dict[str, object] = {
        "found": record.found,
        "verified": record.verified,
        "minimal": record.minimal,
        "alternatives": record.alternatives,
        "byWatermark": record.by_watermark,
        "queries": queries_of(one.plan.transform),
        "replay": replay_query(one.plan, one, alias_of),
        "witnesses": [_rows_value(each) for each in one.witnesses],
        "trigger": [_rows_value(each) for each in one.trigger],
        "cells": [_cell_value(each) for each in one.cells],
        "cellsLeftOut": one.cells_left_out,
        # Conditions and derivations may name rows of a dataset that the caller may not read.
        "notes": [] if one.hides else list(record.notes),
        "how": json.loads(record.how) if record.how and not one.hides else None,
    }
    if one.made_by is not None:
        value["derivedBy"] = {
            "name": one.made_by.name,
            "version": one.made_by.version,
            "digest": one.made_by.digest,
        }
    return value


def _rows_value(one: RowsOfInput) -> dict[str, object]:
    value: dict[str, object] = {
        "input": one.input,
        "dataset": str(one.dataset),
        "alias": one.alias,
        "count": one.count,
        "ranges": _ranges(one.ranges),
        "more": one.more,
        "leftOut": one.left_out,
    }
    if not one.readable:
        value["end"] = {
            "reason": "not-readable",
            "message": "you may not read this dataset; the answer has only the number of its records",
        }
    return value


def _ranges(ranges: Sequence[OffsetRange]) -> list[list[int]]:
    """Half-open: `[begin, end]`."""
    return [[one.begin, one.end] for one in ranges]


def _cell_value(one: Cell) -> dict[str, object]:
    return {
        "input": one.input,
        "offset": one.offset,
        "column": one.column,
        "of": one.output_column,
        "role": one.role.name.lower(),
    }


def _end_value(one: End) -> dict[str, object]:
    value: dict[str, object] = {"reason": one.reason.value, "message": one.message}
    if one.source is not None:
        value["source"] = noun_to_value(one.source)
    if one.polled is not None:
        value["file"] = polled_attributes(one.polled)[ATTRIBUTE]
    if one.place is not None:
        place: dict[str, object] = {"message": one.place.message}
        if one.place.record is not None:
            place |= {"record": one.place.record, "records": one.place.records}
        value["place"] = place
    if one.inputs:
        value["inputs"] = [_input_value(each) for each in one.inputs]
    return value


def _input_value(one: ExecuteTransformInput) -> dict[str, object]:
    offsets = OffsetRange.after(one.prev_offset, one.new_offset)
    return {
        "dataset": str(one.dataset_id),
        "offsets": [offsets.begin, offsets.end],
        "block": None if one.new_block_hash is None else str(one.new_block_hash),
    }


def _datasets(visited: Sequence[Visited], seen: Repository) -> dict[str, object]:
    """Names of the datasets of the answer, as far as the caller may know them."""
    found: dict[DatasetId, CatalogEntry | None] = {one.ref.dataset: None for one in visited}
    for one in visited:
        if one.explanation is not None:
            rows = (*one.explanation.witnesses, *one.explanation.trigger)
            found |= {each.dataset: None for each in rows if each.readable}
    value: dict[str, object] = {}
    for dataset in found:
        entry = seen.find(dataset)
        if entry is not None:
            value[str(dataset)] = {"alias": str(entry.alias), "kind": entry.kind.value, "remote": entry.remote_url}
    return value

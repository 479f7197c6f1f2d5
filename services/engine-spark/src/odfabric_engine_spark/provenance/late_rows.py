"""Rows that a query dropped because they came too late.

Owns which known records those are. Whether one is dropped depends on it and on what its own input had announced before its block
(docs/engine.md#lateness-and-state-expiry), so history says it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from odfabric.model.engine import TransformRequestInput
from odfabric_engine_spark.arrays.array_types import ALWAYS, NEVER, Longs, Mask
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.past_rows import KnownRows
from odfabric_engine_spark.rows.block_steps import micros
from odfabric_engine_spark.rows.row_expressions import micros_of
from odfabric_engine_spark.spark.catalyst.plan_nodes import output_of


def late_rows(
    query: ExplainedQuery, inputs: Sequence[TransformRequestInput], known: Mapping[str, KnownRows]
) -> dict[int, Mask]:
    """By position of the use of an input: which of its known records were dropped."""
    lateness = query.lateness
    if lateness is None or query.stages is None:
        return {}
    by_alias = {one.query_alias: one for one in inputs}
    found: dict[int, Mask] = {}
    for position, finals in lateness.finals.items():
        alias = query.uses[position]
        rows = known[alias]
        columns = output_of(query.stages.inputs[position].plan)
        values = finals.evaluate(rows.of_columns(columns, np.ones(len(rows.offsets), dtype=bool)))
        ends = np.max([micros_of(each).fill_null(NEVER).to_numpy() for each in values], axis=0)
        found[position] = ends <= _bounds(by_alias[alias], rows.offsets, lateness.limit_us)
    return found


def _bounds(one: TransformRequestInput, offsets: Longs, limit_us: int) -> Longs:
    """For each record the instant after which it must close, by earlier watermarks."""
    ends, bounds = [], []
    announced: int | None = None
    for step in one.steps:
        ends.append(0 if step.last_offset is None else step.last_offset + 1)
        bounds.append(ALWAYS if announced is None else announced - limit_us)
        mark = micros(step.watermark)
        announced = max((each for each in (announced, mark) if each is not None), default=None)
    places = np.searchsorted(np.array(ends, np.int64), offsets, side="right")
    found: Longs = np.array([*bounds, ALWAYS], np.int64)[places]
    return found

"""A transaction of a linear query: the new rows of its inputs, in pieces that fit into memory.

Owns the order of pieces (branch by branch, by offset) and pairs that lie across two of them. Invariant: how rows are cut into
pieces, by their number or by their bytes, does not change the records. Not here: what a piece is mapped to (`linear_run`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.util import inheritable_thread_target

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.in_turn import in_turn
from odfabric_engine_spark.incremental.changes import Records
from odfabric_engine_spark.incremental.classify import LinearQuery
from odfabric_engine_spark.incremental.input_table import InputTable
from odfabric_engine_spark.incremental.leaf_rows import LeafRows
from odfabric_engine_spark.incremental.linear_run import HIDDEN, Images, images, literal_records, open_pair, records
from odfabric_engine_spark.incremental.output import OutputShape


def linear_records(
    query: LinearQuery, shape: OutputShape, rows: LeafRows, tables: Mapping[str, InputTable], call: EngineCall
) -> Generator[Records]:
    """The records of all new rows in order. Raises InvalidData, and what Spark raises on an expression."""
    leaves = range(len(query.leaves))
    rows_max, bytes_max = call.settings.transform_piece_rows, call.settings.transform_piece_bytes
    total = sum(len(rows.offsets(leaf)) for leaf in leaves)
    all_rows = _all_rows(rows, leaves, bytes_max) if total <= rows_max else None
    if all_rows is not None:
        whole = [_marked(query, leaf, own, tables) for leaf, own in zip(leaves, all_rows, strict=True)]
        yield _as_records(images(query, shape, whole), shape)
        return
    nothing = [_marked(query, leaf, rows.together(leaf, []), tables) for leaf in leaves]
    at_once = call.settings.cores
    done = 0
    for leaf in leaves:
        waiting: Images | None = None
        pieces = rows.pieces(leaf, rows_max=rows_max, bytes_max=max(bytes_max // (at_once + 1), 1))

        def mapped(piece: pa.Table, leaf: int = leaf) -> tuple[int, Images]:
            """What a piece becomes, with the number of its rows."""
            given = [*nothing[:leaf], _marked(query, leaf, piece, tables), *nothing[leaf + 1 :]]
            return piece.num_rows, images(query, shape, given)

        # Jobs of other threads belong to the call as its own do, so that they end with it; each has properties of its own.
        of_call = (inheritable_thread_target(call.session)(partial(mapped, piece)) for piece in pieces)
        with closing(in_turn(lambda work: work(), of_call, at_once=at_once)) as found_in_turn:
            for count, found in found_in_turn:
                call.progress("map", done, total)
                together = found if waiting is None else waiting.then(found)
                ready, waiting = together.split(len(together) if shape.op_selected else open_pair(together))
                yield _as_records(ready, shape)
                done += count
        if waiting is not None:
            yield _as_records(waiting, shape)


def _all_rows(rows: LeafRows, leaves: Sequence[int], bytes_max: int) -> list[pa.Table] | None:
    """The rows of all leaves, None if they have more bytes together."""
    found: list[list[pa.Table]] = []
    room = bytes_max
    for leaf in leaves:
        found.append([])
        for piece in rows.pieces(leaf, rows_max=max(len(rows.offsets(leaf)), 1), bytes_max=bytes_max):
            found[leaf].append(piece)
            room -= piece.nbytes
            if room < 0:
                return None
    return [rows.together(leaf, own) for leaf, own in zip(leaves, found, strict=True)]


def _as_records(found: Images, shape: OutputShape) -> Records:
    return literal_records(found) if shape.op_selected else records(found)


def _marked(query: LinearQuery, leaf: int, rows: pa.Table, tables: Mapping[str, InputTable]) -> pa.Table:
    """Rows with their branch, offset and operation beside the columns of the input."""
    names = tables[query.leaves[leaf].alias].vocabulary
    branch = pa.array(np.full(rows.num_rows, leaf, dtype=np.int32))
    marks = (branch, rows.column(names.offset), rows.column(names.operation_type))
    for field, mark in zip(HIDDEN, marks, strict=True):
        rows = rows.append_column(field, mark)
    return rows

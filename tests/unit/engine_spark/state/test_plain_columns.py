"""Stored columns: equal values have equal bytes, whatever lies below nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from odfabric_engine_spark.state.canonical_columns import content_bytes, plain


def hidden(data_type: pa.DataType, below_null: object) -> pa.Array:
    """Three values of which the middle one is null, with something below it."""
    filled = pa.array([1, below_null, 3], data_type)
    bits = pa.array([True, False, True])
    return pa.Array.from_buffers(data_type, 3, [bits.buffers()[1], *filled.buffers()[1:]])


def nan(payload: int) -> pa.Array:
    return pa.array(np.array([0x7FF8000000000000 + payload], dtype=np.uint64).view(np.float64))


def stored(array: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([plain(array)], names=["c"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


INTS = pa.int64()
TEXTS = pa.array(["x", "yy", None, "", "zzz"])
ITEMS = pa.array([["x"], None, [], ["y", None]])
MAPS = pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int32()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (hidden(INTS, 7), hidden(INTS, 8)),
        (nan(0), nan(1)),
        (
            pa.StructArray.from_arrays([hidden(INTS, 7)], ["a"], mask=pa.array([False, False, True])),
            pa.StructArray.from_arrays([pa.array([1, None, 9])], ["a"], mask=pa.array([False, False, True])),
        ),
        (
            pa.ListArray.from_arrays(pa.array([0, 3]), hidden(INTS, 7)),
            pa.ListArray.from_arrays(pa.array([0, 3]), hidden(INTS, 8)),
        ),
        (
            pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([5, 6]), mask=pa.array([False, True])),
            pa.array([[5], None]),
        ),
        (pa.array([True, False, True, True]).slice(0, 2), pa.array([True, False])),
        (pa.array([1, None, 3, None]).slice(0, 2), pa.array([1, None])),
        (pa.array(["a", "b", "c"]).slice(0, 1), pa.array(["a"])),
        *((pa.concat_arrays([pa.nulls(1, each.type), each]).slice(1), each) for each in (TEXTS, ITEMS, MAPS)),
    ],
    ids=[
        "integers",
        "nan",
        "struct",
        "items",
        "lists below null",
        "bits",
        "numbers",
        "texts",
        "text slice",
        "list slice",
        "map slice",
    ],
)
def test_equal_values_are_equal_bytes(one: pa.Array, other: pa.Array) -> None:
    assert stored(one) == stored(other)
    assert content_bytes(one) == content_bytes(other)
    assert repr(plain(one).to_pylist()) == repr(one.to_pylist())

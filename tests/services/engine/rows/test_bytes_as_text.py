"""Bytes read as text: unreadable, invalid UTF-8 does not get into a dataset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

LATIN = "café".encode("latin-1")
AS_TEXT = "CAST(raw AS STRING)"


def input_of(folder: Path) -> Input:
    return Input(folder, "a", input_schema(pa.field("k", pa.int32()), pa.field("raw", pa.binary())))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT event_time, k, {AS_TEXT} AS s FROM a",
        f"SELECT event_time, k, array({AS_TEXT}) AS s FROM a",
        f"SELECT event_time, k, named_struct('n', k, 't', {AS_TEXT}).t AS s FROM a",
        f"SELECT max(event_time) AS event_time, count(*) AS n, {AS_TEXT} AS s FROM a GROUP BY {AS_TEXT}",
        f"SELECT event_time, k, max({AS_TEXT}) OVER (PARTITION BY k) AS s FROM a",
    ],
    ids=["rows", "list", "member", "groups", "window"],
)
def test_a_text_that_is_none_is_refused_until_it_is_corrected(
    query: str, tmp_path: Path, engine_call: EngineCall
) -> None:
    rows = input_of(tmp_path).add([(A, 0, 1, b"tea")])
    texts = Derivative(query, [rows], engine_call)
    assert len(texts.pull().records) == 1
    rows.add([(A, 0, 2, LATIN)])
    with pytest.raises(InvalidData, match="column `s` has a text that is not UTF-8"):
        texts.pull()
    rows.add([(CF, 0, 2, LATIN), (CT, 0, 2, "café".encode())])
    texts.taken = [1]
    assert "café" in str(texts.pull().records)


def test_functions_for_such_bytes_make_texts_of_them(tmp_path: Path, engine_call: EngineCall) -> None:
    rows = input_of(tmp_path).add([(A, 0, 1, LATIN)])
    query = (
        f"SELECT event_time, decode(raw, 'ISO-8859-1') AS latin, make_valid_utf8({AS_TEXT}) AS marked, "
        f"try_validate_utf8({AS_TEXT}) AS nothing, {AS_TEXT} = 'tea' AS compared FROM a"
    )
    assert [row[2:] for row in Derivative(query, [rows], engine_call).pull().records] == [
        ("café", "caf\ufffd", None, False)
    ]

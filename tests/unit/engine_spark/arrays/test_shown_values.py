"""How values are shown in messages, also such that Python has no object for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.arrays.shown_values import shown_value


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        (pa.scalar(None, pa.int32()), "null"),
        (pa.scalar("it's"), repr("it's")),
        (pa.scalar(0, pa.timestamp("us", "UTC")), "1970-01-01T00:00:00Z"),
        (pa.scalar(2**63 - 1, pa.timestamp("us", "UTC")), "about the year 294247"),
        (pa.scalar(-(2**63), pa.timestamp("us")), "about the year -290308"),
        (pa.scalar(253_402_300_800_000, pa.timestamp("ms")), "about the year 9999"),
        (pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()), "about the year 5881580"),
        (pa.scalar([1, None]), "[1, null]"),
        (pa.scalar({"a": "x"}), "{a: 'x'}"),
    ],
)
def test_every_value_has_a_text(scalar: pa.Scalar, text: str) -> None:
    assert shown_value(scalar) == text

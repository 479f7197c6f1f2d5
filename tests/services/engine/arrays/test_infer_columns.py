"""The type of a whole column is that of its texts one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.ingest.values.type_inference import infer_column_type, infer_text_type

FORMATS = TextFormats(date_format(None), timestamp_format(None))
TEXTS = st.sampled_from(
    [
        "0",
        "-1",
        "+5",
        "007",
        "1.5",
        "1.",
        ".5",
        "1e3",
        "-0.0",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "123456789012345678",
        "12345678901234567890",
        "0.12345678901234567890",
        "1_0",
        "١",
        "true",
        "False",
        "2024-01-31",
        "2024-02-30",
        "2024-01-31T00:00:00Z",
        "x",
        "",
        "1\n",
        " 1",
        "1.0e",
        "NaN",
    ]
)


@given(st.lists(TEXTS | st.none(), max_size=6) | st.lists(st.integers().map(str) | st.floats().map(str), max_size=6))
@example(["1", "9223372036854775808"])
@example(["1.5", "9223372036854775807"])
@example(["1", None, "", "2.5"])
def test_of_a_column_is_of_its_texts(texts: list[str | None]) -> None:
    kinds = {infer_text_type([text], FORMATS) for text in texts if text}
    wanted = kinds.pop() if len(kinds) == 1 else pa.float64() if kinds == {pa.int64(), pa.float64()} else pa.string()
    assert infer_text_type(texts, FORMATS) == wanted
    assert infer_column_type(pa.chunked_array([pa.array(texts, pa.string())]), FORMATS) == wanted

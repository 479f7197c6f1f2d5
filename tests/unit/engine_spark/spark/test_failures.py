"""What libraries say when something fails, as errors for users."""

from __future__ import annotations

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from odfabric.errors import Corrupt, Determinate, InvalidQuery, LimitExceeded
from odfabric.model.engine import COLUMN_SIZE_LIMIT
from odfabric_engine_spark.spark.cluster.task_failures import raise_told, told_failure
from odfabric_engine_spark.spark.failures import as_odf_error, is_silence


def test_more_text_than_a_column_takes_is_a_limit() -> None:
    piece = pa.array(["x" * (1 << 20)])
    with pytest.raises(pa.ArrowException) as raised:
        pa.concat_arrays([piece] * 2_100)
    known = as_odf_error(raised.value)
    assert isinstance(known, LimitExceeded)
    assert known.limit == COLUMN_SIZE_LIMIT
    with pytest.raises(LimitExceeded, match="more than 2 GiB"):
        raise_told([told_failure(raised.value)])


def test_an_unreadable_file_is_named_without_its_path() -> None:
    said = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///var/odf/exchange/f1620abc. SQLSTATE: KD001"
    known = as_odf_error(PySparkException(said))
    assert isinstance(known, Corrupt)
    assert known.object_name == "f1620abc"
    assert "/var" not in str(known)
    full = as_odf_error(PySparkException(f"{said}\nCaused by: java.io.IOException: No space left on device"))
    assert isinstance(full, Determinate)


def test_what_is_a_bug_stays_one() -> None:
    with pytest.raises(pa.ArrowInvalid) as raised:
        pa.array(["x"]).cast(pa.int64())
    assert as_odf_error(raised.value) is None
    with pytest.raises(pa.ArrowInvalid):
        told_failure(raised.value)


def deep(levels: int) -> int:
    return deep(levels - 1) + 1 if levels else 0


def test_a_recursion_that_goes_too_deep_is_about_the_query_also_while_the_jvm_is_asked() -> None:
    with pytest.raises(RecursionError) as caught:
        deep(10**6)
    try:
        try:
            raise caught.value
        except RecursionError as cause:
            raise Py4JNetworkError("Error while sending") from cause
    except Py4JNetworkError as error:
        asked = error
    for error in (caught.value, asked):
        found = as_odf_error(error)
        assert isinstance(found, InvalidQuery)
        assert found.place.rule == "too-deep"
        assert not is_silence(error)
    assert is_silence(Py4JNetworkError("Answer from Java side is empty"))

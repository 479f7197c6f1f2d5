"""What libraries say when something fails, as errors for users."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from odfabric.errors import Corrupt, Determinate, LimitExceeded
from odfabric.model.engine import COLUMN_SIZE_LIMIT
from odfabric_engine_spark.failures import as_odf_error
from odfabric_engine_spark.task_failures import raise_told, told_failure


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

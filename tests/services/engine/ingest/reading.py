"""Reading in tests: files of given bytes through a reader, as the ingest does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import OdfError
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.data_schema import DataSchema
from odfabric.model.source import ReadStep
from odfabric_engine_spark.ingest.reader import InputFile, read_input
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.read_rows import ROW, InputRows


def ddl(*elements: str) -> DataSchema:
    return ddl_to_schema(elements)


def read_rows(call: EngineCall, step: ReadStep, *contents: bytes, preprocessed: bool = False) -> InputRows | None:
    """What the reader gives; the files are called `f0`, `f1`..."""
    number = len(list(call.exchange.root.iterdir()))
    scratch = call.scratch / f"read-{number}"
    scratch.mkdir()
    files = []
    for index, content in enumerate(contents):
        path = call.exchange.root / f"given-{number}-{index}"
        path.write_bytes(content)
        files.append(InputFile(path, f"f{index}"))
    rows = read_input(step, tuple(files), replace(call, scratch=scratch), preprocessed=preprocessed)
    return None if rows is None else rows.checked()


def values(call: EngineCall, step: ReadStep, *contents: bytes) -> list[dict[str, Any]]:
    """The rows in order, without their positions."""
    rows = read_rows(call, step, *contents)
    assert rows is not None
    table = rows.frame.orderBy(ROW).toArrow()
    assert table.column(ROW).to_pylist() == list(range(table.num_rows))
    return list(table.drop_columns([ROW]).to_pylist())


def refusal(call: EngineCall, step: ReadStep, *contents: bytes) -> OdfError:
    """The error of these files, when read or when Spark reaches the bad value."""
    try:
        rows = read_rows(call, step, *contents)
    except OdfError as error:
        return error
    assert rows is not None
    try:
        found = rows.frame.toArrow()
    except (PySparkException, Py4JError):
        explained = rows.explain() if rows.explain else None
        assert explained is not None
        return explained
    raise AssertionError(f"nothing was refused: {found.to_pylist()}")

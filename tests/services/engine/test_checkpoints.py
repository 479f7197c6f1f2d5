"""Checkpoints: files that are equal for equal states, and refusals of all others."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric.model.instant import Instant
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.checkpoint import MAGIC, Checkpoint, InputPosition, read_checkpoint, write_checkpoint
from tests.services.engine.transforming import A, Derivative, Input, input_schema

STATE = Checkpoint(
    fingerprint="f" * 64,
    inputs=(
        InputPosition(dataset_id="did:odf:fed01aa", next_offset=7, watermark=Instant(-1_500_000)),
        InputPosition(dataset_id="did:odf:fed01bb", next_offset=0, watermark=None),
    ),
    watermark=None,
    parts={
        "groups": pa.table({"key": [b"a", b"b"], "rows": [1, 2]}),
        "empty": pa.table({"x": pa.array([], pa.int8())}),
    },
)
SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
KEYED = "select max(event_time) event_time, k, sum(v) s from a group by k"


def header_of(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[8:16])
    header: dict[str, object] = json.loads(data[16 : 16 + length])
    return header


def with_header(path: Path, **changes: object) -> Path:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[8:16])
    text = json.dumps({**json.loads(data[16 : 16 + length]), **changes}).encode()
    changed = path.with_name("changed")
    changed.write_bytes(MAGIC + struct.pack("<Q", len(text)) + text + data[16 + length :])
    return changed


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", STATE)
    assert read_checkpoint(tmp_path / "c", name="c") == STATE


def test_equal_states_are_equal_files(tmp_path: Path) -> None:
    chunked = pa.concat_tables([STATE.parts["groups"].slice(0, 1), STATE.parts["groups"].slice(1)])
    other = Checkpoint(
        fingerprint=STATE.fingerprint,
        inputs=STATE.inputs,
        watermark=None,
        parts={"empty": STATE.parts["empty"], "groups": chunked},
    )
    write_checkpoint(tmp_path / "one", STATE)
    write_checkpoint(tmp_path / "other", other)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_the_header_describes_the_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", STATE)
    header = header_of(tmp_path / "c")
    assert (header["format"], header["version"], header["bases"]) == ("odfabric-checkpoint", 1, [])
    assert header["inputs"] == [
        {"datasetId": "did:odf:fed01aa", "nextOffset": 7, "watermark": -1_500_000},
        {"datasetId": "did:odf:fed01bb", "nextOffset": 0, "watermark": None},
    ]


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 a tar or zip of another engine", b"ODFCKPT", MAGIC, MAGIC + bytes(8)]
)
def test_foreign_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(InvalidData) as caught:
        read_checkpoint(tmp_path / "c", name="checkpoints/c")
    assert caught.value.place.file == "checkpoints/c"
    assert caught.value.place.rule in ("checkpoint-foreign", "checkpoint-damaged")
    assert caught.value.hint


def test_another_version_or_a_delta_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", STATE)
    for changes in ({"version": 2}, {"bases": ["f16..."]}):
        with pytest.raises(InvalidData) as caught:
            read_checkpoint(with_header(tmp_path / "c", **changes), name="c")
        assert caught.value.place.rule == "checkpoint-version"


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", STATE)
    whole = (tmp_path / "c").read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(InvalidData):
            read_checkpoint(tmp_path / "cut", name="cut")


@pytest.mark.spark
def test_a_linear_query_keeps_positions_and_watermarks_only(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)], watermark=3)
    found = Derivative("select event_time, v from a", [one], engine_call).pull()
    kept = read_checkpoint(found.checkpoint_path, name="c")
    assert kept.parts == {}
    assert kept.inputs == (InputPosition(dataset_id=str(one.id), next_offset=1, watermark=Instant.from_millis(3)),)


@pytest.mark.spark
def test_a_checkpoint_of_another_query_is_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)])
    first = Derivative(KEYED, [one], engine_call)
    first.pull()
    other = Derivative(KEYED.replace("sum(v)", "sum(v + 0)"), [one], engine_call, name="other")
    other.transactions, other.taken = first.transactions, first.taken
    with pytest.raises(InvalidData, match="another query"):
        other.pull()


@pytest.mark.spark
def test_rows_that_do_not_continue_the_checkpoint_are_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)]).add([(A, 0, "y", 1)]).add([(A, 0, "z", 1)])
    derived = Derivative(KEYED, [one], engine_call)
    derived.pull([1])
    derived.taken = [2]
    with pytest.raises(InvalidData, match="continues at offset 1, not at 2"):
        derived.pull()


@pytest.mark.spark
def test_an_aggregate_cannot_begin_in_the_middle_but_a_linear_query_can(
    engine_call: EngineCall, tmp_path: Path
) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)]).add([(A, 0, "y", 2)])
    keyed, linear = Derivative(KEYED, [one], engine_call), Derivative("select event_time, v from a", [one], engine_call)
    keyed.taken, linear.taken = [1], [1]
    with pytest.raises(InvalidData, match="without a checkpoint"):
        keyed.pull()
    assert [row[2] for row in linear.pull().records] == [2]

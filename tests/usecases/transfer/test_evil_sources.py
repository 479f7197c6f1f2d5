"""Sources that lie: each lie is refused by name, and none of it becomes visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from odfabric.formats.blocks.block import block_hash, decode_block, encode_block
from odfabric.formats.identifiers.dataset_layout import parse_ref
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.model.metadata import AddData, MetadataBlock
from odfabric.model.multihash import Multihash
from tests.support.lying_slices import write_lying
from tests.usecases.transfer.sharing import BYTES_MAX, SHELF, Parties


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Parties]:
    found = Parties(tmp_path)
    found.ingest(1)
    found.ingest(2)
    found.push()
    yield found
    assert found.theirs.node.datasets.page(after=None, limit=10) == []


def keys(parties: Parties, area: str) -> list[str]:
    return list(parties.shelf.keys(f"{area}/"))


def replace(parties: Parties, key: str, data: bytes) -> None:
    parties.shelf.delete(key)
    parties.shelf.put_bytes(key, data)


def head_of(parties: Parties) -> Multihash:
    text = parties.shelf.read_ref("refs/head")
    assert text is not None
    return parse_ref(text)


def refused(parties: Parties) -> dict[str, Any]:
    found = parties.pull()
    assert "code" in found, found
    return found


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": flip,
    "cut off": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("area", ["blocks", "data"])
def test_bytes_that_do_not_hash_to_their_name(
    parties: Parties, area: str, which: int, change: Callable[[bytes], bytes]
) -> None:
    key = keys(parties, area)[which]
    replace(parties, key, change(parties.shelf.read_bytes(key, size_max=BYTES_MAX)))
    found = refused(parties)
    assert (found["code"], key.rpartition("/")[2] in found["message"]) == ("corrupted-source", True)


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("area", ["blocks", "data"])
def test_missing_objects(parties: Parties, area: str, which: int) -> None:
    key = keys(parties, area)[which]
    parties.shelf.delete(key)
    found = refused(parties)
    assert (found["code"], key.rpartition("/")[2] in found["message"]) == ("corrupted-source", True)


def test_slices_that_were_exchanged(parties: Parties) -> None:
    one, other = keys(parties, "data")
    first, second = (parties.shelf.read_bytes(key, size_max=BYTES_MAX) for key in (one, other))
    replace(parties, one, second)
    replace(parties, other, first)
    assert refused(parties)["code"] == "corrupted-source"


def served_block(parties: Parties, block: MetadataBlock) -> None:
    """A block that hashes to its name, and is the head."""
    data = encode_block(block)
    parties.shelf.put_bytes(f"blocks/{block_hash(data)}", data)
    parties.shelf.write_ref("refs/head", str(block_hash(data)))


def head_block(parties: Parties) -> MetadataBlock:
    return decode_block(parties.shelf.read_bytes(f"blocks/{head_of(parties)}", size_max=BYTES_MAX))


def test_a_block_that_claims_another_place(parties: Parties) -> None:
    from dataclasses import replace as changed

    block = head_block(parties)
    for wrong in (
        changed(block, sequence_number=block.sequence_number + 1),
        changed(block, sequence_number=0, prev_block_hash=None),
        changed(block, prev_block_hash=block_hash(b"never there")),
    ):
        served_block(parties, wrong)
        assert refused(parties)["code"] in ("invalid-block", "corrupted-source")


def test_rows_of_another_block(parties: Parties) -> None:
    """A block that names the slice of the one before, as if its rows came once more."""
    from dataclasses import replace as changed

    block = head_block(parties)
    assert block.prev_block_hash is not None
    before = decode_block(parties.shelf.read_bytes(f"blocks/{block.prev_block_hash}", size_max=BYTES_MAX))
    lie = changed(
        block.event.new_data,  # type: ignore[union-attr]
        physical_hash=before.event.new_data.physical_hash,  # type: ignore[union-attr]
        size=before.event.new_data.size,  # type: ignore[union-attr]
        logical_hash=before.event.new_data.logical_hash,  # type: ignore[union-attr]
    )
    served_block(parties, changed(block, event=changed(block.event, new_data=lie)))  # type: ignore[type-var]
    assert refused(parties)["code"] == "corrupted-source"


def test_statistics_that_would_hide_rows(parties: Parties, tmp_path: Path) -> None:
    """All fits, but readers would skip it: rows are said to happen a day later."""
    from dataclasses import replace as changed

    block = head_block(parties)
    event = block.event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    rows = pq.read_table(
        pa.BufferReader(parties.shelf.read_bytes(f"data/{event.new_data.physical_hash}", size_max=BYTES_MAX))
    )
    at = rows.schema.get_field_index("event_time")
    times = rows.column(at)
    later = pc.add(times.cast(pa.int64()), 86_400_000).cast(times.type)
    write_lying(rows, rows.set_column(at, rows.schema.field(at), later), tmp_path / "lying")
    physical, size = physical_hash(tmp_path / "lying")
    parties.shelf.put_bytes(f"data/{physical}", (tmp_path / "lying").read_bytes())
    lie = changed(event.new_data, physical_hash=physical, size=size)
    served_block(parties, changed(block, event=changed(event, new_data=lie)))
    for log in ("refs/head.log", "refs/head.sig"):
        parties.shelf.delete(log)  # nobody has signed it
    found = refused(parties)
    assert found["code"] == "corrupted-source"
    assert "the statistics of column `event_time` in row group 1 say" in found["message"]


def test_a_chain_of_another_dataset_under_a_known_name(parties: Parties, tmp_path: Path) -> None:
    other = Parties(tmp_path / "other", seed=7)
    other.ingest(1)
    other.push()
    parties.theirs.remote_stores.share(f"{SHELF}local/other/", other.shelf)
    assert parties.pull("shelf/local/other")["rows"] == 1
    found = parties.pull()
    assert (found["code"], "id or kind is restricted" in found["message"]) == ("invalid-request", True)
    parties.theirs.node.datasets.delete(parties.theirs.node.datasets.page(after=None, limit=1)[0])


def test_a_chain_that_is_too_long_is_not_walked_to_its_end(parties: Parties) -> None:
    parties.theirs.settings = parties.theirs.settings.model_copy(update={"chain_blocks_max": 3})
    parties.theirs.restart()
    found = refused(parties)
    assert (found["code"], "chain_blocks_max" in str(found)) == ("limit-exceeded", True)


def test_an_object_over_the_limit_is_not_fetched(parties: Parties) -> None:
    parties.theirs.settings = parties.theirs.settings.model_copy(update={"object_bytes_max": 10})
    parties.theirs.restart()
    found = refused(parties)
    assert (found["code"], "object_bytes_max" in str(found)) == ("limit-exceeded", True)


@pytest.mark.parametrize("text", ["", "f1620", "no hash", "removed 1234"])
def test_a_head_that_is_none(parties: Parties, text: str) -> None:
    parties.shelf.write_ref("refs/head", text)
    assert refused(parties)["code"] == "corrupted-source"

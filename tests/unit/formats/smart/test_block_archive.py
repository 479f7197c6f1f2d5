"""Archives of blocks: what is written is read, and nothing that is not one is."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest, LimitExceeded, OdfError
from odfabric.formats.blocks.block import block_hash
from odfabric.formats.smart.block_archive import ArchiveLimits, read_archive, write_archive
from odfabric.model.multihash import Multihash

LIMITS = ArchiveLimits(blocks_max=10, block_bytes_max=1000, bytes_max=100_000)


def blocks_of(*contents: bytes) -> list[tuple[Multihash, bytes]]:
    return [(block_hash(each), each) for each in contents]


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


@given(st.lists(st.binary(max_size=1000), max_size=10, unique=True))
def test_what_is_written_is_read_in_its_order(contents: list[bytes]) -> None:
    blocks = blocks_of(*contents)
    assert read_archive(write_archive(blocks), LIMITS) == blocks
    assert write_archive(blocks) == write_archive(blocks)


def test_headers_are_gnu() -> None:
    unpacked = gzip.decompress(write_archive(blocks_of(b"block")))
    name = str(block_hash(b"block")).encode()
    assert unpacked[: len(name)] == name
    assert unpacked[257:265] == b"ustar  \x00"
    assert unpacked[512:517] == b"block"


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for candidate in (data, gzip.compress(data)):
        with suppress(OdfError):
            read_archive(candidate, LIMITS)


@given(st.data())
def test_a_damaged_archive_is_refused_or_the_same(data: st.DataObject) -> None:
    blocks = blocks_of(b"one", b"two" * 200)
    raw = bytearray(gzip.decompress(write_archive(blocks)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = read_archive(gzip.compress(bytes(raw)), LIMITS)
    except OdfError:
        return
    assert all(block_hash(content) == name for name, content in found)
    assert set(found) <= set(blocks)


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(LimitExceeded) as refused:
        read_archive(gzip.compress(bytes(50_000_000)), LIMITS)
    assert refused.value.limit == "smart_archive_bytes_max"


def test_a_bomb_takes_no_more_memory_than_the_limit() -> None:
    """It is refused either way: what counts is that its bytes are never there."""
    bomb, maximum = gzip.compress(bytes(64 << 20)), 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            read_archive(bomb, ArchiveLimits(blocks_max=10, block_bytes_max=maximum, bytes_max=maximum))
        assert tracemalloc.get_traced_memory()[1] < 8 * maximum
    finally:
        tracemalloc.stop()


def test_limits_of_blocks() -> None:
    with pytest.raises(LimitExceeded) as refused:
        read_archive(write_archive(blocks_of(b"x" * 1001)), LIMITS)
    assert refused.value.limit == "block_bytes_max"
    with pytest.raises(LimitExceeded) as refused:
        read_archive(write_archive(blocks_of(*(bytes([n]) for n in range(11)))), LIMITS)
    assert refused.value.limit == "chain_blocks_max"


def _entry(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = "x"
    return entry


@pytest.mark.parametrize(
    ("name", "kind", "data"),
    [
        ("../etc/passwd", tarfile.REGTYPE, b"x"),
        (str(block_hash(b"x")), tarfile.SYMTYPE, b""),
        (str(block_hash(b"x")), tarfile.DIRTYPE, b""),
        (str(block_hash(b"x")), tarfile.GNUTYPE_SPARSE, b""),
        (str(block_hash(b"x")), tarfile.REGTYPE, b"y"),
        ("f" + "0" * 5000, tarfile.REGTYPE, b"x"),
    ],
    ids=["path", "link", "folder", "sparse", "hash", "long"],
)
def test_entries_that_are_no_blocks(name: str, kind: bytes, data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_archive(gzip.compress(tar_of((_entry(name, kind), data))), LIMITS)


def test_a_block_twice() -> None:
    name = str(block_hash(b"x"))
    with pytest.raises(InvalidRequest, match="twice"):
        read_archive(gzip.compress(tar_of((_entry(name), b"x"), (_entry(name), b"x"))), LIMITS)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: data[:20]])
def test_cut_off_or_followed(change: object) -> None:
    with pytest.raises(InvalidRequest):
        read_archive(change(write_archive(blocks_of(b"x"))), LIMITS)  # type: ignore[operator]

"""Archives with false sizes, names that lead elsewhere, entries that are no files."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from odfabric.errors import InvalidRequest, LimitExceeded, OdfError
from odfabric.formats.blocks.block import block_hash
from odfabric.formats.smart.block_archive import ArchiveLimits, read_archive

LIMITS = ArchiveLimits(blocks_max=10, block_bytes_max=1000, bytes_max=100_000)
NAME = str(block_hash(b"x"))
KINDS = {
    "file": b"0",
    "old file": b"\0",
    "hard link": b"1",
    "link": b"2",
    "character device": b"3",
    "block device": b"4",
    "folder": b"5",
    "pipe": b"6",
    "contiguous": b"7",
    "long name": b"L",
    "long link": b"K",
    "sparse": b"S",
    "extended": b"x",
    "extended for all": b"g",
    "unknown": b"Z",
}


def member(name: str, size: int, kind: bytes = b"0") -> bytes:
    """A header with any size, in binary, and one block of data."""
    header = bytearray(512)
    header[: len(name)] = name.encode()
    header[100:124] = b"0000644\0" + b"0000000\0" * 2
    header[124:136] = b"\x80" + size.to_bytes(11, "big") if size >= 0 else (256**12 + size).to_bytes(12, "big")
    header[136:156] = b"00000000000\0" + b" " * 8
    header[156:157], header[257:265] = kind, b"ustar  \0"
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"x".ljust(512, b"\0")


def read(*members: bytes) -> list[object]:
    return list(read_archive(gzip.compress(b"".join(members) + bytes(1024)), LIMITS))


def test_the_helper_makes_archives() -> None:
    assert len(read(member(NAME, 1))) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [10**18, 2**87, 1001, -1, -512, -1024, -(10**18)])
@pytest.mark.parametrize("number", [0, 1], ids=["first", "second"])
def test_a_size_is_not_believed(kind: str, size: int, number: int) -> None:
    with pytest.raises(OdfError):
        read(*[member(NAME, 1)][:number], member(str(block_hash(b"y")), size, KINDS[kind]))


@pytest.mark.parametrize(
    "name",
    [
        "../etc/passwd",
        "/etc/passwd",
        f"./{NAME}",
        f"{NAME}/",
        f"a/../{NAME}",
        NAME[:-1],
        "f1620" + "\uff10" * 20,
        "CON",
        "",
        f"{NAME} ",
        f"..\\{NAME}",
    ],
)
def test_a_name_is_a_hash_and_no_path(name: str) -> None:
    with pytest.raises(InvalidRequest):
        read(member(name, 1))


@pytest.mark.parametrize(
    "headers",
    [
        {"size": "1000000000000000000"},
        {"size": "-1024"},
        {"path": "../../etc/passwd"},
        {"path": "/etc/passwd"},
        {"linkpath": "/etc/passwd", "path": "x"},
        {"GNU.sparse.size": "1000000000000000000"},
        {"GNU.sparse.map": "0,1000000000000000000"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1000000000000"},
    ],
    ids=lambda headers: " ".join(headers),
)
def test_extended_headers_change_nothing(headers: dict[str, str]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(NAME)
        entry.size, entry.pax_headers = 1, headers
        archive.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises((InvalidRequest, LimitExceeded)):
        read_archive(gzip.compress(packed.getvalue()), LIMITS)


def test_a_hash_in_capitals_is_the_same_block() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        read(member(NAME, 1), member("F" + NAME[1:].upper(), 1))


def test_a_bomb_in_a_bomb_is_bytes() -> None:
    inner = gzip.compress(bytes(10_000_000))
    with pytest.raises((InvalidRequest, LimitExceeded)):
        read_archive(gzip.compress(inner), LIMITS)


def test_a_second_stream_behind_the_first_is_refused() -> None:
    one = gzip.compress(member(NAME, 1) + bytes(1024))
    with pytest.raises(InvalidRequest, match="followed by something else"):
        read_archive(one + gzip.compress(bytes(50_000_000)), LIMITS)

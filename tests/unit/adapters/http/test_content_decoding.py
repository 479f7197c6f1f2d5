"""Gzip in pieces of bounded size."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.http.decoding import PIECE_BYTES_MAX, BadCoding, decode


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(st.lists(st.binary(max_size=300_000) | st.integers(0, 300_000).map(bytes), max_size=3), st.lists(st.integers(0)))
def test_members_in_any_cut_give_the_content(members: list[bytes], places: list[int]) -> None:
    packed = b"".join(gzip.compress(member) for member in members)
    pieces = list(decode(cut(packed, places), "gzip"))
    assert b"".join(pieces) == b"".join(members)
    assert all(0 < len(piece) <= PIECE_BYTES_MAX for piece in pieces)


@given(st.binary(min_size=1, max_size=2000), st.integers(0))
def test_a_cut_end_is_an_error(content: bytes, place: int) -> None:
    packed = gzip.compress(content)
    with pytest.raises(BadCoding):
        list(decode([packed[: 1 + place % (len(packed) - 1)]], "gzip"))


@given(st.binary(min_size=1, max_size=2000) | st.binary(max_size=2000).map(gzip.compress))
def test_any_bytes_are_gzip_or_an_error(content: bytes) -> None:
    try:
        unpacked = b"".join(decode([content], "gzip"))
    except BadCoding:
        return
    assert unpacked == gzip.decompress(content)


def test_a_changed_byte_is_an_error() -> None:
    packed = bytearray(gzip.compress(b"rows" * 100))
    packed[-6] ^= 1  # in the check sum
    with pytest.raises(BadCoding):
        list(decode([bytes(packed)], "gzip"))


def test_a_bomb_comes_in_small_pieces() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1024 * 1024)) for _ in range(64)) + packer.flush()
    pieces = decode([bomb], "gzip")
    assert max(len(next(pieces)) for _ in range(100)) <= PIECE_BYTES_MAX


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "compress", "gzip, gzip", "gzip,identity", "x" * 1000])
def test_other_codings_are_refused(coding: str) -> None:
    with pytest.raises(BadCoding) as refused:
        decode([b""], coding)
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize("coding", [None, "identity", " Identity "])
def test_no_coding_leaves_the_chunks(coding: str | None) -> None:
    assert list(decode([b"a", b"b"], coding)) == [b"a", b"b"]


@pytest.mark.parametrize("coding", ["gzip", "X-GZIP"])
def test_an_empty_body_is_empty_content(coding: str) -> None:
    assert list(decode([], coding)) == []

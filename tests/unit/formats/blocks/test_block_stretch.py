"""Several blocks in one answer: what is written is read, nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import CorruptedSource
from odfabric.formats.blocks.block_stretch import read_stretch, write_stretch

BLOCKS = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


def test_each_block_has_its_length_before_it() -> None:
    assert write_stretch([b"abc", b"\0"]) == b"\x03\0\0\0abc" + b"\x01\0\0\0\0"


@given(BLOCKS)
def test_what_is_written_is_read(blocks: list[bytes]) -> None:
    assert read_stretch(write_stretch(blocks), count_max=len(blocks), block_bytes_max=40) == blocks


@given(BLOCKS, st.integers(1, 400))
def test_an_answer_that_is_cut_off_gives_whole_blocks_or_an_error(blocks: list[bytes], cut: int) -> None:
    body = write_stretch(blocks)[:-cut]
    try:
        found = read_stretch(body, count_max=len(blocks), block_bytes_max=40)
    except CorruptedSource:
        return
    assert found == blocks[: len(found)]
    assert write_stretch(found) == body


@given(st.binary(max_size=60))
def test_strange_bytes_are_blocks_or_refused(body: bytes) -> None:
    try:
        found = read_stretch(body, count_max=3, block_bytes_max=10)
    except CorruptedSource:
        return
    assert 1 <= len(found) <= 3
    assert max(map(len, found)) <= 10
    assert write_stretch(found) == body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "has none"),
        (b"\x01\0\0", "cut off"),
        (b"\x02\0\0\0a", "cut off"),
        (b"\xff\xff\xff\xff" + b"a" * 20, "4294967295 bytes"),
        (write_stretch([b"a", b"b", b"c"]), "more than the 2"),
    ],
)
def test_a_refusal_names_what_is_wrong(body: bytes, words: str) -> None:
    with pytest.raises(CorruptedSource, match=words):
        read_stretch(body, count_max=2, block_bytes_max=10)

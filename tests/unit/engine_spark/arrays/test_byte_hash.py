"""Hashes of byte strings: a function of the bytes alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.byte_hash import byte_hashes

STRINGS = st.lists(st.binary(min_size=1, max_size=12) | st.binary(min_size=255, max_size=258), min_size=1, max_size=30)


def hashes(strings: list[bytes]) -> list[int]:
    return byte_hashes(pa.array(strings, pa.binary())).tolist()


@given(STRINGS, st.integers(0, 30))
def test_other_strings_do_not_matter(strings: list[bytes], begin: int) -> None:
    """Hashes ignore other strings: equal lengths, short ones, mixtures, each a path."""
    assert hashes(strings) == [hashes([each])[0] for each in strings]
    part = pa.array(strings, pa.binary()).slice(min(begin, len(strings) - 1))
    assert byte_hashes(part).tolist() == hashes(strings)[min(begin, len(strings) - 1) :]


def test_known_hashes() -> None:
    """Checkpoints are read by them."""
    assert hashes([b"odfabric", b"odf"]) == [15830517428696669453, 5253119778559087133]
    assert hashes([b"odfabric"]) == [15830517428696669453]

"""The bytes of the key file: those keys in that order, or a refusal."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import Corrupt
from odfabric.formats.secrets.key_file import KEY_FILE_BYTES_MAX, KEYS_MAX, decode_keys, encode_keys

keys = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=KEYS_MAX).map(tuple)
several = keys.filter(lambda some: len(some) > 1)


@given(keys)
def test_what_was_written_is_read(some: tuple[bytes, ...]) -> None:
    data = encode_keys(some)
    assert decode_keys(data, name="k") == some
    assert len(data) <= KEY_FILE_BYTES_MAX


def test_one_key_is_its_bytes_as_ever_and_several_are_as_described() -> None:
    one, two = bytes(range(32)), bytes(32)
    assert encode_keys((one,)) == one
    body = b"ODFKEYS\x01" + one + two
    assert encode_keys((one, two)) == body + hashlib.sha3_256(body).digest()


@given(several, st.data())
def test_any_flipped_bit_is_noticed(some: tuple[bytes, ...], data: st.DataObject) -> None:
    file = bytearray(encode_keys(some))
    bit = data.draw(st.integers(0, len(file) * 8 - 1))
    file[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt, match="the key file is damaged"):
        decode_keys(bytes(file), name="k")


@given(several, st.data())
def test_a_file_that_was_cut_or_continued_is_noticed(some: tuple[bytes, ...], data: st.DataObject) -> None:
    file = encode_keys(some)
    # One key has no mark, so 32 bytes are a key: the file is replaced whole, and a piece of it never has that name.
    length = data.draw(st.integers(0, len(file) - 1).filter(lambda size: size != 32))
    for changed in (file[:length], file + data.draw(st.binary(min_size=1, max_size=64))):
        with pytest.raises(Corrupt):
            decode_keys(changed, name="k")


@pytest.mark.parametrize("some", [(), (bytes(31),), (bytes(32),) * (KEYS_MAX + 1), (bytes(32), bytes(33))])
def test_what_is_no_list_of_keys_is_not_written(some: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="1 to 16 keys of 32 bytes"):
        encode_keys(some)


def test_the_file_that_is_damaged_is_named() -> None:
    with pytest.raises(Corrupt) as refused:
        decode_keys(b"", name="dataset-keys.key")
    assert refused.value.object_name == "dataset-keys.key"

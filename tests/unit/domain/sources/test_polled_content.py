"""What blocks say of polled files, written by us or by anybody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.block_attributes import as_extra
from odfabric.domain.sources.polled_content import ATTRIBUTE, PolledContent, polled_attributes, polled_content
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.instant import Instant
from odfabric.model.multihash import sha3_256_multihash

HASHES = st.binary(min_size=32, max_size=32).map(sha3_256_multihash)
TIMES = st.integers(0, 4 * 10**18).map(Instant)


@given(
    content=HASHES,
    name=st.none() | st.text(),
    size=st.none() | st.integers(0, 2**63),
    modified_at=st.none() | TIMES,
)
def test_what_is_written_is_read(content, name, size, modified_at) -> None:  # type: ignore[no-untyped-def]
    polled = PolledContent(content=content, name=name, size=size, modified_at=modified_at)
    assert polled_content(as_extra(polled_attributes(polled))) == polled


def test_nothing_is_written_of_nothing() -> None:
    assert polled_attributes(None) == {}
    assert polled_content(None) is None


@pytest.mark.parametrize(
    "attribute",
    [
        None,
        [],
        "x",
        {},
        {"content": 1},
        {"content": "x"},
        {"content": str(sha3_256_multihash(bytes(32))), "modifiedAt": "x"},
    ],
)
def test_attributes_of_others_are_passed_over(attribute: object) -> None:
    assert polled_content(ExtraAttributes(entries=json.dumps({ATTRIBUTE: attribute}))) is None


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_attributes_that_are_no_object_are_passed_over(text: str) -> None:
    assert polled_content(ExtraAttributes(entries=text)) is None

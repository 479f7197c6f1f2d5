"""Messages longer than anything but bytes may be.

They are read in memory of a few times their length.
"""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidRequest
from odfabric.formats.smart.json_reader import PLAIN_CHARACTERS_MAX, read_value

COUNT = PLAIN_CHARACTERS_MAX // 4 + 70_000


def message(payload: str) -> str:
    return f'{{"blocks": {{"num_blocks": 3, "payload": [{payload}], "encoding": "raw"}}}}'


def test_bytes_are_those_that_were_sent() -> None:
    sent = (bytes(range(256)) * (COUNT // 100))[: 2 * COUNT]
    found = read_value(message(",".join(map(str, sent)))).member("blocks")
    assert found.member("payload").bytes() == sent
    assert found.member("num_blocks").number() == 3
    assert found.member("encoding").text(maximum=9) == "raw"


@pytest.mark.parametrize("end", ["256", "255,", ",255", "1 2", "", "255]"])
def test_what_is_no_list_of_bytes_is_refused(end: str) -> None:
    with pytest.raises(InvalidRequest):
        read_value(message("255," * COUNT + end))


def test_anything_else_that_long_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="besides the bytes"):
        read_value(f'{{"payload": [1], "other": [{"[],[]," * COUNT}1]}}')


def test_a_mark_is_no_way_to_other_bytes() -> None:
    text = f'{{"payload": "bytes that were taken out", "blocks": {{"payload": [{"7," * PLAIN_CHARACTERS_MAX}7]}}}}'
    assert set(read_value(text).member("payload").bytes()) == {7}

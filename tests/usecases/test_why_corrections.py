"""What a correction takes the place of, and where a withdrawn row comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odfabric.model.why_request import WhyRequest
from tests.usecases.test_time_travel import Travelled


@pytest.fixture
def travelled(tmp_path: Path) -> Travelled:
    """A row that is added, then corrected twice, then withdrawn."""
    found = Travelled(tmp_path)
    found.step([(1, "a", 0, 1.0), (1, "b", 0, 5.0)])
    found.step([(1, "a", 0, 2.0)])
    found.step([(1, "a", 0, 3.0)])
    found.step([(0, "a", 0, 3.0)])
    return found


def why(travelled: Travelled, *offsets: int) -> list[dict[str, Any]]:
    answer: Any = travelled.node.provenance.why(travelled.entry, WhyRequest(offsets=offsets, values=True))
    found: list[dict[str, Any]] = answer["records"]
    return found


def test_a_correction_says_the_row_before_it(travelled: Travelled) -> None:
    found = {one["offset"]: one for one in why(travelled, *range(7))}
    assert [one["op"] for _, one in sorted(found.items())] == [
        *("append", "append", "correct_from", "correct_to", "correct_from", "correct_to", "retract")
    ]
    assert {at: one["before"]["value"] for at, one in found.items() if "before" in one} == {3: 1.0, 5: 2.0}


def test_a_withdrawn_row_was_in_no_file(travelled: Travelled) -> None:
    places = [one["end"]["place"]["message"] for one in why(travelled, 1, 2, 3, 6)]
    assert [place.startswith("the earlier row of its key") for place in places] == [False, True, False, True]
    assert ("replaced by" in places[1], "taken back by" in places[3]) == (True, True)

"""SIGKILL at every crash point: the next process continues without loss or repeat.

A process dies when it comes to a point for the first time, or for the second: on one day the one, on the next the other, and both if
`ODF_TEST_TURNS` is `night`.

The process that dies is a real one on real adapters; the one that continues knows nothing but what lies in the workspace. On servers the
same drills are in `test_on_servers`.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from odfabric.adapters.unreliable.crash_points import CRASH_POINTS
from tests.drills import scenario
from tests.drills.drills import Drill, Prepared, check_pushes, drills_of, is_other_hit
from tests.drills.places import InFolder, Places
from tests.drills.processes import receiving, run
from tests.support.turns import NIGHTLY, today

OWN = InFolder()
SHARED = InFolder(settings={"heads": "objects"})


@pytest.mark.parametrize("places", [OWN, SHARED], ids=["own", "shared"])
def test_without_a_crash_the_scenario_goes_through(tmp_path: Path, places: Places) -> None:
    place = places.new(tmp_path)
    with receiving() as receiver:
        assert run(place, scenario.pushes_and_subscribers, receiver=receiver.address) == 0
        check_pushes(place, receiver)


def test_every_listed_point_is_drilled() -> None:
    own, shared = ({drill.armed.partition("@")[0] for drill in drills_of(shared=kind)} for kind in (False, True))
    assert own | shared == set(CRASH_POINTS)


TURNS = 5
"""A drill takes seconds: a process is started, dies, and another goes on."""


def point_of(drill: Drill) -> tuple[str, str]:
    return drill.about, drill.armed.partition("@")[0]


def in_turn(drills: list[Drill], day: int) -> list[Drill]:
    """Those of a fifth of the points; all points come round."""
    points = sorted({point_of(drill) for drill in drills})
    return [drill for drill in drills if points.index(point_of(drill)) % TURNS == day % TURNS]


def todays(drills: list[Drill], day: int) -> list[Drill]:
    """The same with one of the two hits of a point, by turns."""
    return [drill for drill in in_turn(drills, day) if not is_other_hit(drill, day // TURNS)]


@pytest.mark.parametrize("shared", [False, True])
def test_every_drill_has_its_day(shared: bool) -> None:
    drills = drills_of(shared=shared)
    turns = [todays(drills, day) for day in range(2 * TURNS)]
    assert set(chain.from_iterable(turns)) == set(drills)
    assert {point_of(drill) for drill in chain.from_iterable(turns[:TURNS])} == {point_of(drill) for drill in drills}


OWN_DRILLS, SHARED_DRILLS = drills_of(shared=False), drills_of(shared=True)


@pytest.mark.parametrize("drill", OWN_DRILLS if NIGHTLY else todays(OWN_DRILLS, today()), ids=str)
def test_a_process_that_dies_there_is_continued_by_the_next(tmp_path: Path, prepared: Prepared, drill: Drill) -> None:
    drill.act(OWN, tmp_path, drill.armed, prepared)


# A dataset's first commit has most of these points; what is the same as above is not run a second time.
COMMITS = ("intent.", "object.name.put", "object.ref.put", "object.info.put", "chain.")


@pytest.mark.parametrize(
    "drill",
    [
        drill
        for drill in (SHARED_DRILLS if NIGHTLY else in_turn(SHARED_DRILLS, today()))
        if drill.armed.startswith(COMMITS) and (drill.about == "rebuilds" or not drill.armed.endswith("@2"))
    ],
    ids=str,
)
def test_the_same_where_heads_of_record_lie_in_the_objects(tmp_path: Path, prepared: Prepared, drill: Drill) -> None:
    drill.act(SHARED, tmp_path, drill.armed, prepared)

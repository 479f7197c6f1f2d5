"""A changed transform and its migration, with each port call failing once.

Before and after its effect: half of them each day.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import External
from odfabric.model.metadata import ExecuteTransform, SetTransform
from tests.support.turns import todays
from tests.usecases.transform.test_set_transform import Story

T = TypeVar("T")

ATTEMPTS_MAX = 6
CHUNKS = 4


def insist(verb: Callable[[], T]) -> T:
    """Call again after a fault, as anyone who asked would."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return verb()
        except External:
            continue
    raise AssertionError("never came through")


def change_under(plan: FaultPlan, folder: Path) -> Story:
    """A dataset whose transform is changed and whose rows follow, while ports fail."""
    story = Story(folder)
    story.push(story.readings, "Kyiv", "Lviv")
    story.push(story.others, "Oslo")
    story.pull()
    story.memory.restart(plan)
    insist(lambda: story.change("SELECT * FROM b"))
    insist(lambda: pull_later(story))
    insist(story.memory.node.background.relay_outbox)
    story.memory.restart()
    return story


def pull_later(story: Story) -> None:
    """When whatever an interrupted attempt has leased is free again."""
    story.memory.clock.advance(60_000)
    story.pull()


def check(story: Story) -> None:
    """One change, one migration, the new transform's rows, and a valid chain."""
    assert story.records() == [(0, "Kyiv"), (0, "Lviv"), (1, "Kyiv"), (1, "Lviv"), (0, "Oslo")]
    assert [event for event in story.events() if event in (SetTransform, ExecuteTransform)] == [
        SetTransform,
        ExecuteTransform,
        SetTransform,
        ExecuteTransform,
    ]
    assert story.verify() == {"ok": True, "errors": []}


@pytest.mark.parametrize("chunk", todays(range(CHUNKS), parts=4))
def test_one_fault_at_any_call_changes_the_rows_once(tmp_path: Path, chunk: int) -> None:
    plan = FaultPlan()
    check(change_under(plan, tmp_path / "watched"))
    faults: list[tuple[int, Fault, str]] = [
        (number, fault, call.name) for number, call in enumerate(plan.calls) for fault in call.faults
    ]
    assert "engine.migrate" in {name for _, _, name in faults}
    for number, fault, name in faults[chunk::CHUNKS]:
        try:
            check(change_under(FaultPlan.single(number, fault), tmp_path / f"{number}-{fault.value}"))
        except BaseException as error:
            error.add_note(f"fault {fault.value} at call {number}, {name}")
            raise

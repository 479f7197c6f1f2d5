"""A deletion and a new reader of one dataset: the later one is refused.

However they meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import Determinate, InUse, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import INPUTS_LOCK
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.testing.conformance.together import outcomes_of_threads
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.repository import Repository
from tests.support.at_call import AtCall, Meeting
from tests.usecases.manifests import DERIVED, ROOT

OF_OTHERS = DERIVED.replace("readings", "others")


class Two:
    """A dataset, and who is about to read it."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder, lock_wait_s_max=0)
        self.input = self.memory.add(ROOT)

    @property
    def repository(self) -> Repository:
        return self.memory.node.repository

    def delete(self) -> None:
        self.memory.node.datasets.delete(self.input)

    def create(self) -> None:
        self.memory.add(DERIVED)

    def change(self) -> None:
        (snapshot,) = parse_snapshots(DERIVED, file="test.yaml")
        self.memory.node.editing.set_transform(snapshot, self.memory.node.operator)

    def attempt(self, verb: Callable[[Two], object]) -> None:
        with suppress(OdfError):  # anyone who is refused has done nothing
            verb(self)

    @property
    def is_there(self) -> bool:
        return self.repository.find(self.input.id) is not None

    @property
    def is_read(self) -> bool:
        derived = self.repository.find(parse_dataset_alias("copied"))
        if derived is None:
            return False
        transform = self.repository.current(derived.id)[1].transform
        return transform is not None and str(self.input.id) in [one.dataset_ref for one in transform.event.inputs]


def other_input(two: Two) -> None:
    """The reader is there and reads another dataset, and has not run."""
    two.memory.add(ROOT.replace("readings", "others"))
    two.memory.add(OF_OTHERS)


def nothing_else(two: Two) -> None:
    """The reader is made."""


def test_an_input_that_goes_while_the_engine_judges_the_query_is_missed(tmp_path: Path) -> None:
    two = Two(tmp_path)
    two.memory.restart(AtCall("before", "engine.validate", two.delete))
    with pytest.raises(NotFound, match="removed meanwhile"):
        two.create()
    assert not two.is_read


def test_a_reader_that_comes_while_the_others_are_looked_at_is_told(tmp_path: Path) -> None:
    two = Two(tmp_path)
    two.memory.restart(AtCall("before", "object.other.lock", lambda: meet(two, Two.create)))
    with pytest.raises(InUse, match="copied"):
        two.delete()
    assert two.is_there


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("before", "outer", "inner"),
    [
        (nothing_else, Two.create, Two.delete),
        (nothing_else, Two.delete, Two.create),
        (other_input, Two.change, Two.delete),
        (other_input, Two.delete, Two.change),
    ],
)
def test_they_may_meet_anywhere(
    tmp_path: Path,
    before: Callable[[Two], None],
    outer: Callable[[Two], object],
    inner: Callable[[Two], object],
    after: bool,
) -> None:
    ended: set[tuple[bool, bool]] = set()
    at, met = 0, True
    while met:
        two = Two(tmp_path / str(at))
        before(two)
        meeting = Meeting(at, lambda two=two: meet(two, inner), after=after)
        two.memory.restart(meeting)
        two.attempt(outer)
        met = at < len(meeting.calls)
        two.memory.restart()
        assert two.is_there or not two.is_read, f"{'after' if after else 'before'} call {at}, {meeting.calls[at]}"
        if met:
            ended.add((two.is_there, two.is_read))
        at += 1
    assert ended == {(True, True), (False, False)}


def meet(two: Two, inner: Callable[[Two], object]) -> None:
    """Another process, which sees the same stores."""
    node = two.memory.node
    two.memory.restart()
    two.attempt(inner)
    two.memory.node = node


class FewLocks:
    """Objects with two locks at once for a process; others wait for a moment."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self._held = threading.Semaphore(2)
        self._asked = 0
        self._another = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    @contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        if not self._held.acquire(timeout=5):
            raise Determinate("no lock is left")
        self._asked += key == INPUTS_LOCK
        if self._asked > 1:
            self._another.set()
        try:
            with self._objects.exclusive(key):
                if key == INPUTS_LOCK and self._asked == 1:
                    self._another.wait(0.2)  # if one may wait for it here, then it does so now
                yield
        finally:
            self._held.release()


def test_many_who_wait_leave_a_lock_to_the_one_they_wait_for(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.use_ports(objects=FewLocks(memory.objects))
    memory.add(ROOT)
    outcomes = outcomes_of_threads(lambda number: memory.add(DERIVED.replace("copied", f"copied{number}")), count=4)
    assert [outcome for outcome in outcomes if isinstance(outcome, OdfError)] == []

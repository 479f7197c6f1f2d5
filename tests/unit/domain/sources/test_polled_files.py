"""Which files of a folder are read: their order, late ones and replaced ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.sources.polled_files import (
    FilePlan,
    FoundFile,
    KnownFile,
    Reason,
    listed,
    natural_key,
    plan_files,
    state_name,
)
from odfabric.model.instant import Instant
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

APPEND = MergeStrategyAppend()
LEDGER = MergeStrategyLedger(primary_key=("id",))
SNAPSHOT = MergeStrategySnapshot(primary_key=("id",))
UPSERT = MergeStrategyUpsertStream(primary_key=("id",))
CHANGES = MergeStrategyChangelogStream(primary_key=("id",))
ALL = (APPEND, LEDGER, SNAPSHOT, UPSERT, CHANGES)
OLD, NEW = Instant.parse("2026-01-01T00:00:00Z"), Instant.parse("2026-01-02T00:00:00Z")

NAMES = st.text(alphabet="ab0129-.", min_size=1, max_size=6)


def found(name: str, *, size: int = 1, at: Instant = OLD) -> FoundFile:
    return FoundFile(name=name, size=size, modified_at=at)


def known(*names: str) -> dict[str, KnownFile]:
    return {name: KnownFile(read_at=OLD, size=1, modified_at=OLD) for name in names}


def passed(plan: FilePlan) -> list[tuple[str, Reason]]:
    return [(file.name, file.reason) for file in plan.passed]


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["part-10.csv", "part-9.csv", "2026-03-02.csv", "part-010.csv", "a", "part-9b.csv"]
    assert sorted(names, key=natural_key) == [
        "2026-03-02.csv",
        "a",
        "part-9.csv",
        "part-9b.csv",
        "part-010.csv",
        "part-10.csv",
    ]


@given(st.lists(NAMES, unique=True))
def test_the_order_of_names_is_total(names: list[str]) -> None:
    ordered = sorted(names, key=natural_key)
    names.reverse()
    assert sorted(names, key=natural_key) == ordered


@pytest.mark.parametrize("merge", ALL)
def test_new_files_are_read_in_order_and_known_ones_once(merge: MergeStrategy) -> None:
    plan = plan_files([found("p-10"), found("p-8"), found("p-9")], known("p-8"), merge)
    assert plan == FilePlan(("p-9", "p-10"), ())


@pytest.mark.parametrize(
    ("merge", "reads"), [(APPEND, True), (LEDGER, True), (SNAPSHOT, False), (UPSERT, False), (CHANGES, False)]
)
def test_a_late_file_is_read_where_its_place_does_not_matter(merge: MergeStrategy, reads: bool) -> None:
    plan = plan_files([found("p-1"), found("p-2")], known("p-2"), merge)
    assert plan.read == (("p-1",) if reads else ())
    assert passed(plan) == ([] if reads else [("p-1", Reason.LATE)])
    for file in plan.passed:
        assert "p-2" in file.hint


@pytest.mark.parametrize(
    ("merge", "last", "before"),
    [
        (APPEND, False, False),
        (CHANGES, False, False),
        (LEDGER, True, True),
        (SNAPSHOT, True, False),
        (UPSERT, True, False),
    ],
)
def test_a_replaced_file_is_read_where_that_is_harmless(merge: MergeStrategy, last: bool, before: bool) -> None:
    for name, reads in (("p-2", last), ("p-1", before)):
        plan = plan_files([found(name, size=2, at=NEW)], known("p-1", "p-2"), merge)
        assert plan.read == ((name,) if reads else ())
        assert passed(plan) == ([] if reads else [(name, Reason.REPLACED)])


def test_a_file_of_a_block_without_details_is_replaced_if_it_is_newer_than_the_block() -> None:
    legacy = {"p-1": KnownFile(read_at=OLD)}
    assert plan_files([found("p-1", at=OLD)], legacy, APPEND) == FilePlan((), ())
    assert passed(plan_files([found("p-1", at=NEW)], legacy, APPEND)) == [("p-1", Reason.REPLACED)]


def test_files_of_one_name_are_told_apart_by_nobody() -> None:
    plan = plan_files([found("x.csv"), found("x.csv", size=2)], {}, APPEND)
    assert (plan.read, passed(plan)) == (("x.csv",), [("x.csv", Reason.SAME_NAME)])


@given(
    files=st.lists(st.tuples(NAMES, st.booleans()), max_size=8),
    read=st.lists(NAMES, max_size=8),
    merge=st.sampled_from(ALL),
)
def test_every_file_is_read_known_or_passed_over(
    files: list[tuple[str, bool]], read: list[str], merge: MergeStrategy
) -> None:
    present = [found(name, at=NEW if changed else OLD) for name, changed in files]
    before = known(*read)
    plan = plan_files(present, before, merge)
    unchanged = {file.name for file in present if file.name in before and before[file.name].is_unchanged(file)}
    assert {file.name for file in present} == set(plan.read) | {file.name for file in plan.passed} | unchanged
    assert len(plan.read) == len(set(plan.read))
    assert list(plan.read) == sorted(plan.read, key=natural_key)
    if merge in (APPEND, CHANGES):
        assert not set(plan.read) & set(before)


@given(st.lists(NAMES, min_size=1))
def test_the_state_is_the_greatest_name_whatever_the_order(names: list[str]) -> None:
    state = None
    for name in names:
        state = state_name(state, name)
    assert state == max(names)


def test_an_answer_lists_the_first_and_counts_the_others() -> None:
    plan = plan_files([found(f"p-{number}") for number in range(5)], known("p-9"), SNAPSHOT)
    shown = listed(plan.passed, limit=2)
    assert [file["name"] for file in shown["passedOver"]] == ["p-0", "p-1"]  # type: ignore[attr-defined]
    assert shown["passedOverMore"] == 3
    assert listed((), limit=2) == {}

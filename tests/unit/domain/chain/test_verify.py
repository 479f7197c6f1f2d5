"""Judging chains, objects and transactions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.verify import (
    FoundSlice,
    ProblemKind,
    VerificationProblem,
    verify_checkpoint,
    verify_links,
    verify_replay,
    verify_slice,
)
from odfabric.domain.chain.walk import ChainLink
from odfabric.model.instant import Instant
from odfabric.model.metadata import Checkpoint, DatasetKind, ExecuteTransform, ExecuteTransformInput
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_id,
    example_slice,
    logical_hash,
    physical_hash,
    random_chain,
)

DATASET = example_id()
BLOCK = physical_hash("block")
SLICE = example_slice(5, 3)
FOUND = FoundSlice(size=SLICE.size, physical_hash=SLICE.physical_hash, logical_hash=SLICE.logical_hash, rows=3)
ROOT, DERIVATIVE = DatasetKind.ROOT, DatasetKind.DERIVATIVE


def links(chain: ChainBuilder) -> list[ChainLink]:
    return [ChainLink(encoded.hash, encoded.block) for encoded in chain.blocks]


# --- chains -----------------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.sampled_from(DatasetKind), st.integers(min_value=1, max_value=20))
def test_a_valid_chain_has_no_problem(chance: Random, kind: DatasetKind, blocks: int) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    assert verify_links(DATASET, links(chain)) == (chain.state, None)


def test_the_first_block_that_breaks_a_rule_is_named() -> None:
    chain = random_chain(Random(1), kind=ROOT, blocks=10)
    found = links(chain)
    bad = found[6]
    found[6] = ChainLink(bad.hash, replace(bad.block, system_time=Instant(0)))
    state, problem = verify_links(DATASET, found)
    assert state.sequence_number == 5
    assert problem == VerificationProblem(
        kind=ProblemKind.BLOCK_MALFORMED,
        dataset=DATASET,
        block=bad.hash,
        object=None,
        message="rule B2: System time has to be monotonically non-decreasing",
    )


def test_a_chain_of_another_dataset_is_a_problem() -> None:
    chain = ChainBuilder(dataset_id=example_id("other"))
    _, problem = verify_links(DATASET, links(chain))
    assert problem is not None
    assert (problem.kind, problem.block) == (ProblemKind.BLOCK_MALFORMED, chain.head)
    assert str(example_id("other")) in problem.message


def test_a_chain_from_the_future_is_a_problem_where_a_clock_is_given() -> None:
    chain = ChainBuilder()
    early = Instant(START.epoch_ns - 301 * 1_000_000_000)
    _, problem = verify_links(DATASET, links(chain), now=early)
    assert problem is not None
    assert "rule X7" in problem.message
    assert verify_links(DATASET, links(chain), now=START)[1] is None


# --- objects ----------------------------------------------------------------------------------------------------------

OTHER_BYTES = replace(FOUND, physical_hash=physical_hash("other bytes"))


@pytest.mark.parametrize(
    ("kind", "found", "text"),
    [
        (ROOT, FOUND, None),
        (ROOT, replace(FOUND, logical_hash=None, rows=None), None),
        (ROOT, replace(FOUND, size=1), "size is 1, declared 103"),
        (ROOT, OTHER_BYTES, "physical hash is"),
        (ROOT, replace(FOUND, logical_hash=logical_hash("x")), "logical hash is"),
        (ROOT, replace(FOUND, rows=4), "the file has 4 rows, the offset interval 3"),
        (DERIVATIVE, OTHER_BYTES, None),
        (DERIVATIVE, replace(OTHER_BYTES, logical_hash=logical_hash("x")), "logical hash is"),
        (DERIVATIVE, replace(OTHER_BYTES, size=1), "size is 1, declared 103"),
    ],
)
def test_a_slice_is_what_its_block_declares(kind: DatasetKind, found: FoundSlice, text: str | None) -> None:
    problem = verify_slice(DATASET, kind, BLOCK, declared=SLICE, found=found)
    if text is None:
        assert problem is None
    else:
        assert problem is not None
        assert (problem.kind, problem.block) == (ProblemKind.DATA_DOES_NOT_MATCH_METADATA, BLOCK)
        assert problem.object == SLICE.physical_hash
        assert text in problem.message


def test_a_missing_object_is_named() -> None:
    problem = verify_slice(DATASET, ROOT, BLOCK, declared=SLICE, found=None)
    assert problem is not None
    assert (problem.kind, problem.object) == (ProblemKind.OBJECT_NOT_FOUND, SLICE.physical_hash)
    checkpoint = example_checkpoint("x")
    problem = verify_checkpoint(DATASET, BLOCK, declared=checkpoint, found=None)
    assert problem is not None
    assert (problem.kind, problem.object) == (ProblemKind.OBJECT_NOT_FOUND, checkpoint.physical_hash)


def test_other_bytes_of_a_derivative_need_their_logical_hash() -> None:
    with pytest.raises(ValueError, match="logical hash"):
        verify_slice(DATASET, DERIVATIVE, BLOCK, declared=SLICE, found=replace(OTHER_BYTES, logical_hash=None))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (example_checkpoint("x"), None),
        (replace(example_checkpoint("x"), size=1), "size is 1, declared 100"),
        (example_checkpoint("y"), "physical hash is"),
    ],
)
def test_a_checkpoint_is_what_its_block_declares(found: Checkpoint, text: str | None) -> None:
    problem = verify_checkpoint(DATASET, BLOCK, declared=example_checkpoint("x"), found=found)
    if text is None:
        assert problem is None
    else:
        assert problem is not None
        assert problem.kind is ProblemKind.CHECKPOINT_DOES_NOT_MATCH_METADATA
        assert text in problem.message


# --- replay -----------------------------------------------------------------------------------------------------------

PROGRESS = ExecuteTransformInput(dataset_id=INPUT_IDS[0], new_block_hash=physical_hash("input"), new_offset=9)
COMMITTED = ExecuteTransform(
    query_inputs=(PROGRESS,),
    prev_checkpoint=example_checkpoint("before").physical_hash,
    prev_offset=4,
    new_data=SLICE,
    new_checkpoint=example_checkpoint("after"),
    new_watermark=START,
)


@pytest.mark.parametrize(
    "replayed",
    [
        COMMITTED,
        replace(COMMITTED, new_data=replace(SLICE, physical_hash=physical_hash("other"), size=7)),
        replace(COMMITTED, new_checkpoint=example_checkpoint("other")),
        replace(COMMITTED, new_checkpoint=None),
    ],
)
def test_a_replay_may_differ_in_bytes_and_checkpoint(replayed: ExecuteTransform) -> None:
    assert verify_replay(DATASET, BLOCK, expected=COMMITTED, actual=replayed) is None


@pytest.mark.parametrize(
    ("replayed", "member"),
    [
        (replace(COMMITTED, new_data=replace(SLICE, logical_hash=logical_hash("x"))), "new_data"),
        (replace(COMMITTED, new_data=example_slice(5, 2)), "new_data"),
        (replace(COMMITTED, new_data=None), "new_data"),
        (replace(COMMITTED, new_watermark=None), "new_watermark"),
        (replace(COMMITTED, prev_offset=3), "prev_offset"),
        (replace(COMMITTED, prev_checkpoint=None), "prev_checkpoint"),
        (replace(COMMITTED, query_inputs=(replace(PROGRESS, new_offset=8),)), "query_inputs"),
    ],
)
def test_a_replay_must_not_differ_in_anything_else(replayed: ExecuteTransform, member: str) -> None:
    problem = verify_replay(DATASET, BLOCK, expected=COMMITTED, actual=replayed)
    assert problem is not None
    assert (problem.kind, problem.block, problem.object) == (
        ProblemKind.DATA_NOT_REPRODUCIBLE,
        BLOCK,
        SLICE.physical_hash,
    )
    assert f"{member}: committed" in problem.message


def test_a_difference_is_told_in_words() -> None:
    replayed = replace(
        COMMITTED, query_inputs=(replace(PROGRESS, new_offset=8),), new_data=example_slice(5, 2), new_watermark=None
    )
    problem = verify_replay(DATASET, BLOCK, expected=replace(COMMITTED, prev_offset=None), actual=replayed)
    assert problem is not None
    consumed = f"{INPUT_IDS[0]} blocks (none, {PROGRESS.new_block_hash}] offsets (none, "
    assert problem.message == (
        f"the replay differs in query_inputs: committed {consumed}9], replayed {consumed}8]; "
        "prev_offset: committed none, replayed 4; "
        f"new_data: committed {SLICE.logical_hash} of offsets 5 to 7, "
        f"replayed {example_slice(5, 2).logical_hash} of offsets 5 to 6; "
        "new_watermark: committed 2024-01-01T00:00:00Z, replayed none"
    )


def test_rows_where_none_were_committed_are_found() -> None:
    empty = replace(COMMITTED, new_data=None)
    problem = verify_replay(DATASET, BLOCK, expected=empty, actual=COMMITTED)
    assert problem is not None
    assert problem.object is None

"""Hold what another node says of records against the blocks on this one.

A claim is what another node says of a record whose inputs are not here. Invariant: a claim that contradicts a block on this node is
refused; what cannot be known here stays a claim. Not here: the form of an answer (`usecases.provenance.peer_answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odfabric.domain.provenance.trace import RecordRef
from odfabric.errors import ChainsDiverged, CorruptedSource, NotFound
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import ExecuteTransform, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.find_block import block_with
from odfabric.usecases.provenance.peer_answer import INT64_MAX, PeerAnswer
from odfabric.usecases.provenance.provenance_document import queries_of
from odfabric.usecases.provenance.trace_records import Visited

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claims:
    """What another node says of the records asked for, and of those behind them."""

    asked: Mapping[int, Record]
    behind: Sequence[Record]


def checked_claims(
    answer: PeerAnswer, visited: Sequence[Visited], *, depth: int, with_values: bool, repository: Repository
) -> Claims:
    """The answer about records of one dataset, followed for `depth` datasets.

    Raises CorruptedSource for an answer to something else, ChainsDiverged for one that contradicts a block on this node.
    """
    dataset = str(visited[0].ref.dataset)
    by_ref = {(one["dataset"], one["offset"]): one for one in answer.records}
    if len(by_ref) != len(answer.records):
        raise CorruptedSource("the answer of another node has a record twice")
    asked: dict[int, Record] = {}
    for one in visited:
        said = by_ref.pop((dataset, one.ref.offset), None)
        if said is None or said["depth"] != 0:
            raise CorruptedSource(f"the answer of another node does not have record {one.ref.offset}")
        _check_asked(said, one, with_values=with_values, repository=repository)
        asked[one.ref.offset] = said
    _check_reached(asked.values(), by_ref, depth=depth)
    behind = list(by_ref.values())
    for said in behind:
        if with_values and "values" not in said:
            raise CorruptedSource(f"the answer of another node has no row of its record {said['offset']}")
        _check_block(said, repository)
    return Claims(asked, behind)


def _check_asked(said: Record, one: Visited, *, with_values: bool, repository: Repository) -> None:
    """What this node knows of a record that it has: its block, row, query and inputs."""
    block, offset = one.link.block, one.ref.offset
    if said["block"] != {
        "hash": str(one.link.hash),
        "sequence": block.sequence_number,
        "systemTime": str(block.system_time),
    }:
        raise ChainsDiverged(f"record {offset} is in block {said['block']['hash']} there, in {one.link.hash} here")
    if said["op"] != one.record.op.word:
        raise ChainsDiverged(f"record {offset} is {said['op']} there, {one.record.op.word} here")
    if with_values and said.get("values") != dict(one.record.values):
        raise ChainsDiverged(f"the row of record {offset} is another there")
    if "why" not in said:
        return
    event = block.event
    assert isinstance(event, ExecuteTransform)
    for rows in _rows_of(said):
        consumed = event.query_inputs[rows["input"]] if rows["input"] < len(event.query_inputs) else None
        if consumed is None or rows["dataset"] != str(consumed.dataset_id):
            raise ChainsDiverged(f"record {offset} has input {rows['input']} there, which its block does not name")
        last = consumed.prev_offset if consumed.new_offset is None else consumed.new_offset
        known = OffsetRange.after(None, last)
        if any(end > known.end for _, end in rows["ranges"]):
            raise ChainsDiverged(f"record {offset} is made of records there that its block has not read")
    queries = _queries(one, repository)
    if queries is not None and said["why"]["queries"] != queries:
        raise ChainsDiverged(f"record {offset} is made by another query there")


def _queries(one: Visited, repository: Repository) -> list[str] | None:
    previous = one.link.block.prev_block_hash
    state = None if previous is None else repository.state(one.ref.dataset, previous)
    if state is None or state.transform is None:
        return None
    transform = state.transform.event.transform
    return queries_of(transform) if isinstance(transform, TransformSql) else None


def _check_reached(asked: Iterable[Record], behind: Mapping[tuple[str, int], Record], *, depth: int) -> None:
    """Records that nothing leads to are no answer to what was asked."""
    level, left = list(asked), dict(behind)
    for step in range(1, depth + 1):
        leading: dict[str, list[tuple[int, int]]] = {}
        for rows in (rows for one in level for rows in _rows_of(one)):
            # Only the first ranges are listed.
            ranges = [[0, INT64_MAX]] if rows["more"] and rows["ranges"] else rows["ranges"]
            leading.setdefault(rows["dataset"], []).extend((begin, end) for begin, end in ranges)
        level = [
            one
            for (dataset, offset), one in left.items()
            if one["depth"] == step and any(begin <= offset < end for begin, end in leading.get(dataset, ()))
        ]
        for one in level:
            del left[one["dataset"], one["offset"]]
    if left:
        dataset, offset = next(iter(left))
        raise CorruptedSource(f"nothing in the answer of another node leads to its record {dataset} {offset}")


def _rows_of(one: Record) -> Sequence[Mapping[str, Any]]:
    why = one.get("why")
    return () if why is None else (*why["witnesses"], *why["trigger"])


def _check_block(said: Record, repository: Repository) -> None:
    """The block of a record of a dataset that is here too."""
    dataset: DatasetId = parse_dataset_id(said["dataset"])
    if repository.find(dataset) is None:
        return
    try:
        here = block_with(RecordRef(dataset, said["offset"]), repository)
    except NotFound:
        return  # the copy here is older
    if said["block"]["hash"] != str(here.hash):
        raise ChainsDiverged(
            f"record {dataset} {said['offset']} is in block {said['block']['hash']} there, in {here.hash} here"
        )

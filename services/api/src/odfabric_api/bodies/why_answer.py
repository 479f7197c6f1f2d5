"""The answer to why records are there, as the contract describes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from odfabric_api.bodies.schemas import Answer


class WhyRows(Answer):
    """Records of one input: how many, and their ranges of offsets, half-open."""

    input: int
    dataset: str
    alias: str
    count: int
    ranges: list[list[int]]
    more: bool = Field(description="There are more ranges than these")
    left_out: int = Field(description="Records that are not followed in this answer")
    end: dict[str, Any] | None = None


class WhyCell(Answer):
    """A cell of an input behind the cell `of`, or behind the row."""

    input: int
    offset: int
    column: str
    of: str | None
    role: Literal["copied", "computed", "compared", "inspected"]


class Why(Answer):
    """What is behind one record of a derivative."""

    found: bool
    verified: bool = Field(description="The query over the witnesses alone gives the row")
    minimal: bool
    alternatives: int = Field(description="How many derivations give an equal row")
    by_watermark: bool
    queries: list[str]
    replay: str | None = Field(description="The query over the witnesses alone, as SQL of this node")
    witnesses: list[WhyRows]
    trigger: list[WhyRows] = Field(description="New records that made the block write this one")
    cells: list[WhyCell]
    cells_left_out: bool
    notes: list[str]
    how: dict[str, Any] | None
    derived_by: dict[str, str] | None = None


class WhyBlock(Answer):
    """The block that wrote a record."""

    hash: str
    sequence: int
    system_time: str


class WhyRecord(Answer):
    """A record; `depth` counts the datasets between it and what was asked."""

    dataset: str
    offset: int
    op: Literal["append", "retract", "correct_from", "correct_to"]
    depth: int
    block: WhyBlock
    values: dict[str, Any] | None = None
    corrects: int | None = Field(None, description="The record of this dataset that it corrects or withdraws")
    before: dict[str, Any] | None = Field(None, description="The row that a correction takes the place of")
    why: Why | None = None
    claimed_by: list[str] | None = Field(
        None, description="Nodes that say so, the one that was asked first; it is not checked on this node"
    )
    further: str | None = Field(None, description="Where the node that says so shows the rows that are left out here")
    end: dict[str, Any] | None = Field(None, description="Why this branch goes no further: `reason`, `message`")


class WhyAnswer(Answer):
    """Records in the order in which they were visited, each once."""

    dataset: str
    asked: list[int]
    columns: list[str]
    kinds: list[str] = Field(description="What was asked for: witnesses, trigger, cells, how")
    effort: Literal["lineage", "verified", "minimal"]
    skip: int = Field(description="Rows of each input before this page")
    records: list[WhyRecord]
    datasets: dict[str, dict[str, Any]]
    cost: dict[str, int]
    left_out: int
    next: str | None = Field(description="Cursor of further rows of the records asked for")

"""Shapes of answers about rewritten history."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from odfabric_api.bodies.schemas import HASH, Answer

RewriteKindName = Literal["reset", "compacted", "cleared", "replaced"]


class ResetAnswer(Answer):
    """A head that went back, and what is out of the chain."""

    id: str
    alias: str
    old_head: str = Field(description=HASH)
    head: str = Field(description=HASH)
    blocks_dropped: int
    rows_dropped: int


class WatermarkAnswer(Answer):
    """The watermark in force; `upToDate`: it was not earlier than the one that was asked for."""

    id: str
    alias: str
    head: str = Field(description=HASH)
    watermark: str | None
    up_to_date: bool


class RewriteView(Answer):
    """One move of the head other than forwards."""

    kind: RewriteKindName
    old_head: str = Field(description=HASH)
    new_head: str = Field(description=HASH)
    at: str


class RewrittenInputView(Answer):
    """An input that no longer has the block that the dataset read last.

    `kind` and `at` are null where it is not recorded how that came, or the caller may not see the input.
    """

    id: str
    alias: str | None
    consumed: str = Field(description=HASH)
    kind: RewriteKindName | None
    at: str | None
    message: str


class HistoryAnswer(Answer):
    """Rewrites of a dataset, newest first, and those of its inputs that it has not followed."""

    rewrites: list[RewriteView]
    rewritten_inputs: list[RewrittenInputView]

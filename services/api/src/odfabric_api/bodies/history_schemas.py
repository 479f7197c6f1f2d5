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
    """The watermark in force; `upToDate`: the one that was asked for is not later."""

    id: str
    alias: str
    head: str = Field(description=HASH)
    watermark: str | None
    up_to_date: bool


class RewriteView(Answer):
    """One move of the head other than forwards.

    `rowsKept` of the first records are those of the history before; null in old records of rewrites.
    """

    kind: RewriteKindName
    old_head: str = Field(description=HASH)
    new_head: str = Field(description=HASH)
    at: str
    rows_kept: int | None


class RewrittenInputView(Answer):
    """An input that no longer has the block that the dataset read last.

    `kind` and `at` are null where it is not recorded how that came, or the caller may not see the input. They are those of the first rewrite
    that took away rows that were read, else of the newest since. `keepsRows`: the rows that were read are there at the same offsets.
    """

    id: str
    alias: str | None
    consumed: str = Field(description=HASH)
    kind: RewriteKindName | None
    at: str | None
    keeps_rows: bool
    message: str


class HistoryAnswer(Answer):
    """Rewrites of a dataset, newest first, and of inputs that it has not followed."""

    rewrites: list[RewriteView]
    rewritten_inputs: list[RewrittenInputView]


class ReportView(Answer):
    """A signed verification report that a peer has published beside the dataset.

    `document` is its text as it was signed. `inChain`: the block up to which was checked is in the present chain.
    """

    id: str
    signer: str = Field(description="`did:key` of the Ed25519 key that signed it")
    published_by: str
    published_at: str
    ok: bool
    mode: str
    block: str = Field(description=HASH)
    in_chain: bool
    at: str
    document: str


class ReportList(Answer):
    """Reports beside a dataset, newest first, one of each signer."""

    reports: list[ReportView]

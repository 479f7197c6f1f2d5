"""Settings of rewriting history and of verifying it.

Owns names, defaults and descriptions; `odfabric.settings` has the rest of the table and is the place to read it from.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class HistorySettings(BaseSettings):
    """What compaction makes, and how much is verified at once."""

    compaction_slice_bytes_max: int = Field(
        300_000_000, ge=1, description="Size up to which compaction joins slices, unless a request says otherwise"
    )
    compaction_slice_records_max: int = Field(
        10_000, ge=1, description="Records up to which compaction joins slices, unless a request says otherwise"
    )
    watermark_ahead_s_max: float = Field(
        24 * 3600.0,
        ge=0,
        description="How far ahead of the clock a watermark may be set without force, in seconds; it never goes back",
    )
    replays_at_once: int = Field(
        2,
        ge=1,
        le=64,
        description="Transactions that one verification runs again at a time, and blocks whose objects it checks at a time",
    )
    reports_per_dataset_max: int = Field(100, ge=1, description="Signers whose verification reports one dataset keeps")
    compaction_blocks_max: int = Field(1_000_000, ge=1, description="Longest chain that is compacted")

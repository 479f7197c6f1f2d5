"""Settings of push, poll and ingest, a part of the table `odfabric.settings`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

MIB = 1024 * 1024
GIB = 1024 * MIB


class IngestSettings(BaseSettings):
    """What can be set for data on their way in.

    Field descriptions are the documentation.
    """

    push_inline_bytes_max: int = Field(64 * 1024, description="Largest body of a push that is kept in the job table")
    pushes_queued_per_dataset_max: int = Field(
        10_000, ge=1, description="Pushes to one dataset that wait for their commit; more get 429 with Retry-After"
    )
    pushes_queued_per_account_max: int = Field(100_000, ge=1, description="The same of one account")
    push_group_jobs_max: int = Field(1000, description="Most pushes that are committed together; 1 = each by itself")
    push_group_bytes_max: int = Field(32 * MIB, description="Most bytes of their bodies")
    staged_lifetime_s: float = Field(24 * 3600.0, description="Age at which a staged upload without a job is collected")
    uploads_per_account_max: int = Field(
        20,
        ge=1,
        description="Last files of one account that are kept until a dataset is made of them; older ones are removed",
    )
    judged_columns_max: int = Field(500, ge=1, description="Most columns of a file that the wizard judges")
    judged_line_characters_max: int = Field(
        16 * MIB, ge=1, description="Longest line or value of such a file, in characters"
    )
    source_bytes_max: int = Field(64 * GIB, description="Largest file that a polling source fetches")
    column_name_bytes_max: int = Field(
        1024, ge=1, description="Longest name of a column of a new dataset, in UTF-8; existing datasets keep theirs"
    )
    unpacked_bytes_max: int = Field(10 * GIB, description="Largest unpacked size of an archive entry")
    unpack_ratio_max: int = Field(1000, description="Largest ratio of unpacked to packed size")
    archive_entries_max: int = Field(10_000, description="Most entries of an archive")
    snapshot_shrink_max: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Largest share of its rows that a Snapshot may lose by one ingest unless that is confirmed; 1 = all",
    )
    snapshot_shrink_rows_min: int = Field(100, ge=1, description="Rows from which on a Snapshot is protected so")
    rejected_rows_max: int = Field(
        10_000, ge=1, description="Most rows of one file that a source with a quarantine may have rejected"
    )
    poll_files_max: int = Field(10_000, description="Files that one pull ingests, and that one glob may match")
    variables_per_dataset_max: int = Field(100, ge=1, description="Variables and secrets of one dataset")
    variable_bytes_max: int = Field(16 * 1024, ge=1, description="Longest value of such a variable, in UTF-8")
    source_environment: tuple[str, ...] = Field(
        (),
        description="Environment variables of the node that templates of all datasets may use; who owns a dataset can have them sent anywhere",
    )
    savepoint_bytes_max: int = Field(
        10 * GIB, description="Bodies together that are kept of pulls that fetched and then failed; 0 keeps none"
    )
    savepoint_s_max: float = Field(7 * 24 * 3600.0, description="How long each of them is kept")
    poll_entries_max: int = Field(1_000_000, description="Names that one glob looks at")
    leftover_lifetime_s: float = Field(
        3600.0, description="Age at which an unfinished write of a dead process is removed"
    )
    leftover_entries_max: int = Field(1_000_000, description="Names that one search for leftovers looks at")

"""Settings of how datasets move between this node and others, folders and buckets.

Owns names, defaults and descriptions; `odfabric.settings` has the rest of the table and is the place to read it from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints
from pydantic_settings import BaseSettings

from odfabric.model.transfer.smart import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX

MIB = 1024 * 1024


class RemoteBucketKeys(BaseModel):
    """Keys to a bucket elsewhere, as `remote_s3_keys` has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    access_key: SecretStr
    secret_key: SecretStr
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")] = "us-east-1"


class TransferSettings(BaseSettings):
    """What moves between this node and others."""

    remote_tokens: dict[str, SecretStr] = Field(
        {}, description="Bearer tokens for other nodes, by origin such as `https://node.example` (JSON object)"
    )
    remote_s3_keys: dict[str, RemoteBucketKeys] = Field(
        {},
        description="Keys to buckets elsewhere, by `s3://bucket` or `s3+https://host/bucket`: "
        '`{"s3://bucket": {"access_key": .., "secret_key": .., "region": ..}}`; others are read without keys',
    )
    remote_s3_own_keys: bool = Field(
        False, description="Buckets of AWS without such keys get those that the SDK finds (local workspace only)"
    )
    push_folder: Path | None = Field(
        None, description="Folder below which datasets may be pushed to `file://`; unset = refused"
    )
    transfers_at_once: int = Field(10, ge=1, le=100, description="Objects that one transfer moves at a time")
    transfer_checks_at_once: int = Field(
        2,
        ge=1,
        le=100,
        description="Received objects of one transfer that are hashed and decoded at a time: as many as there are processors",
    )
    head_signature_s: float = Field(
        60.0,
        ge=0,
        description="Age at which the published signature of a head is renewed while the head moves, in seconds",
    )
    head_signature_s_max: float = Field(
        86_400.0,
        ge=60,
        description="Age at which a worker renews the published signature of a head that rests, in seconds",
    )
    head_age_s_max: float = Field(
        0.0,
        ge=0,
        description="Oldest signature of a head that a pull takes, in seconds; an older one counts as a frozen place. 0 = any",
    )
    head_log_entries_max: int = Field(
        1_000_000, ge=1, description="Entries of the head log of a dataset elsewhere that are read"
    )
    transfer_resumes_max: int = Field(
        5, ge=0, le=100, description="How often a download that broke off goes on where it broke before it fails"
    )
    partial_downloads_max: int = Field(
        32, ge=0, le=10_000, description="Downloads that broke off of which the next pull finds what came. 0 = none"
    )
    partial_download_age_s_max: float = Field(
        24 * 3600.0, gt=0, description="Age at which what came of such a download is given up, in seconds"
    )
    smart_transfers_at_once_max: int = Field(
        8, ge=1, le=100, description="Pulls and pushes by the Smart protocol that this node serves at once"
    )
    smart_transfers_per_account_max: int = Field(
        4,
        ge=1,
        le=100,
        description="The same of one account, and of strangers from one address; clients that say nothing yet count too",
    )
    smart_transfers_anonymous_max: int = Field(
        4, ge=0, le=100, description="The same of all strangers together; 0 = pulls need a token"
    )
    smart_first_message_s_max: float = Field(
        10.0, gt=0, description="Longest wait for the first message of such a client, which takes its place with it"
    )
    smart_message_bytes_max: int = Field(
        MESSAGE_BYTES_MAX,
        ge=1024,
        le=MESSAGE_BYTES_MAX,
        description="Longest message of the Smart protocol; cannot be raised",
    )
    smart_frame_bytes_max: int = Field(
        FRAME_BYTES_MAX,
        ge=1024,
        le=FRAME_BYTES_MAX,
        description="Longest message that this node sends to a peer that pulls; cannot be raised",
    )
    smart_archive_bytes_max: int = Field(
        256 * MIB, ge=1024, description="Blocks of one transfer by the Smart protocol, unpacked"
    )
    smart_wait_s_max: float = Field(60.0, gt=0, description="Longest wait for the next message of the Smart protocol")
    smart_objects_wait_s_max: float = Field(
        3600.0, gt=0, description="The same while the peer moves objects, or commits"
    )
    smart_transfer_s: float = Field(
        600.0, gt=0, description="Time of every conversation of the Smart protocol, whatever is moved"
    )
    smart_transfer_bytes_per_s_min: int = Field(
        64 * 1024, ge=1, description="Least rate at which the bytes that are announced prolong it, in bytes per second"
    )
    smart_transfer_s_max: float = Field(24 * 3600.0, gt=0, description="Longest conversation of the Smart protocol")
    smart_progress_s: float = Field(10.0, gt=0, description="Pause between two questions how far an upload is")
    smart_link_s: int = Field(
        3600, ge=1, description="Lifetime of links to objects in S3 that the Smart protocol gives out"
    )
    repositories_per_account_max: int = Field(
        100, ge=1, description="Repositories of an account, and of the node itself"
    )
    repository_listing_max: int = Field(
        1000, ge=1, description="Folders of a repository that a search looks at, and datasets that it answers"
    )
    remote_names_max: int = Field(
        1_000_000, ge=1, description="Names of one folder that are read from a bucket elsewhere"
    )

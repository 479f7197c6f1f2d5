"""The request of each kind of job, and the envelope that all requests share.

Owns the values. Their texts in job rows are written and read by `formats.jobs` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.model.file_shape import FileShape
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.model.why_request import WhyRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asked for a job, as known at that time.

    The account's id is a column of the job.

    `name` of the account, `token` by its id, `address` of the peer, `trace` as a `traceparent`. Jobs of older releases have the name alone.
    """

    name: str | None = None
    token: str | None = None
    address: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Who or what asked for a job: a person, or the run of a flow by its id.

    Neither for a job of the node itself.
    """

    by: Asker | None = None
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class RequestObjects:
    """Keys of the objects that a job works on.

    `staged` is removed with the job, `upload` outlives it.
    """

    staged: str | None = None
    upload: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """Both, as far as the job has them."""
        return frozenset(key for key in (self.staged, self.upload) if key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """A push that was accepted.

    `staged` is the object that holds the body, None if the body is in the job table.

    `size` in bytes and SHA3-256 `digest` are those of the body; `key_hash` is that of the idempotency key.
    """

    dataset: DatasetId
    staged: str | None
    digest: bytes
    size: int
    file_name: str
    source_name: str | None = None
    media_type: str | None = None
    event_time: Instant | None = None
    key_hash: bytes | None = None
    if_match: Multihash | None = None
    allow_shrink: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """What a pull job was asked for.

    With `url` the dataset is (or becomes) a copy of the remote one, named `alias`.

    `recursive` brings the inputs up to date first; `fetch_uncacheable` appends what a source sends that cannot tell what is new;
    `fetch_again` ignores what is kept of a pull that fetched and then failed; `allow_shrink` confirms that a Snapshot loses most of its rows;
    `force` replaces a copy that is ahead of its source or aside from it, `recompute` drops the rows of a derivative whose inputs were
    rewritten and computes them from the beginning; both take the right to rewrite its history.
    `folder_of_user` is set by the command line on a workspace alone: the person's own files may be read, from this folder on.
    """

    dataset: DatasetId | None
    alias: DatasetAlias
    url: str | None = None
    recursive: bool = False
    fetch_uncacheable: bool = False
    allow_shrink: bool = False
    fetch_again: bool = False
    force: bool = False
    recompute: bool = False
    folder_of_user: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWish:
    """Where a dataset is to be pushed, and how.

    `to` is a URL, a repository, or `repository/[account/]dataset`; None lets the aliases decide. With `force` what is there may lose
    history of its own. `visibility` is for a dataset that is new on a node.
    """

    to: str | None = None
    force: bool = False
    visibility: Visibility = Visibility.PRIVATE


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A push of a dataset to elsewhere."""

    dataset: DatasetId
    wish: SendWish


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A compaction of a root dataset, or with `metadata_only` the loss of all rows.

    `slice_bytes_max` and `slice_records_max` bound the slices that are made; None: as the node is set.
    """

    dataset: DatasetId
    metadata_only: bool = False
    slice_bytes_max: int | None = None
    slice_records_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """A verification of the chain, and of data objects and transactions if asked for.

    Transactions are verified by re-execution.

    `head` is the head when it was asked for; jobs of older releases do not say it. Objects and transactions of the blocks `(after, until]` are
    checked, None being the seed and the head. With `report` the result has a signed report, with `fetch` what is missing here is fetched
    from where copies are.
    """

    dataset: DatasetId
    data: bool
    replay: bool
    head: Multihash | None = None
    after: Multihash | None = None
    until: Multihash | None = None
    report: bool = False
    fetch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyJobRequest:
    """A question why records of a dataset are there."""

    dataset: DatasetId
    asked: WhyRequest


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Bring the current-state index of a dataset up to its head."""

    dataset: DatasetId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """A file that is here: size in bytes, SHA3-256, and origin (None for an upload)."""

    size: int
    digest: bytes
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToFetch:
    """A file that the job fetches first."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """Judge the file in the object `upload`, as written in `shape`; None: guess it."""

    upload: str
    file_name: str
    file: ReceivedFile | FileToFetch
    shape: FileShape | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushToTry:
    """A dataset that is there, and how a push to it would be read."""

    dataset: DatasetId
    source_name: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetToTry:
    """A dataset that would be made: its snapshot as YAML."""

    manifest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRequest:
    """Try a push of the object `upload`.

    `shown` is kept for anyone who shows the result; `size` in bytes, `digest` SHA3-256.
    """

    upload: str
    digest: bytes
    size: int
    file_name: str
    target: PushToTry | DatasetToTry
    shown: Mapping[str, object] = field(default_factory=dict)

"""What the commands ask of a workspace or a node, and the values they exchange.

Owns the protocol between commands and their two backends (`workspace`, `node_client`), so that a command is written once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from odfabric.errors import InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.model.instant import Instant

if TYPE_CHECKING:
    from odfabric.cli.backends.head_backends import HeadBackend
    from odfabric.cli.backends.history_backends import HistoryBackend
    from odfabric.cli.backends.people_backend import PeopleBackend
    from odfabric.cli.backends.sharing_backends import SharingBackend
    from odfabric.model.people.account import Visibility
    from odfabric.model.why_request import WhyRequest

JobListener = Callable[[Mapping[str, object]], None]
"""Gets the progress document of a job whenever it was looked at."""

MEDIA_TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".geojson": "application/geo+json",
    ".ndgeojson": "application/x-ndgeojson",
    ".geojsonl": "application/x-ndgeojson",
    ".parquet": "application/vnd.apache.parquet",
}


class JobFailed(Exception):
    """A job ended without success; `document` is its problem document."""

    def __init__(self, document: Mapping[str, object]) -> None:
        super().__init__(str(document.get("detail") or document.get("message")))
        self.document = document


@dataclass(frozen=True, slots=True, kw_only=True)
class PushFile:
    """One file to be pushed."""

    path: str
    name: str
    """What users know it as."""
    source_name: str | None
    media_type: str | None
    event_time: Instant | None
    idempotency_key: str | None
    allow_shrink: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWish:
    """What is verified; `after` and `until` are hashes or numbers of blocks."""

    data: bool = True
    replay: bool = True
    after: str | None = None
    until: str | None = None
    report: bool = False
    fetch: bool = False


class CursorBackend(Protocol):
    """Verbs of cursors."""

    def create(self, ref: str, consumer: str, *, start: str) -> dict[str, object]:
        """The cursor with its fence."""

    def listed(self, ref: str) -> list[dict[str, object]]:
        """All cursors of a dataset."""

    def claim(self, ref: str, consumer: str, *, fence: str | None) -> dict[str, object]:
        """The cursor with a new fence."""

    def fetch(self, ref: str, consumer: str, *, fence: str, limit: int | None) -> dict[str, object]:
        """`{event, position, ...}`."""

    def acknowledge(self, ref: str, consumer: str, *, fence: str, position: str) -> dict[str, object]:
        """The cursor as it is now."""

    def delete(self, ref: str, consumer: str) -> dict[str, object]:
        """`{consumer}` of what was deleted."""


class FlowBackend(Protocol):
    """Verbs of flows; `kind` is poll, transform, mirror or verify."""

    def listed(self, ref: str | None) -> list[dict[str, Any]]:
        """The flows of a dataset with its last runs, or of all that one may change."""

    def set(self, ref: str, kind: str, rule: Mapping[str, object]) -> dict[str, Any]:
        """The flow, made or under another rule."""

    def change(self, ref: str, kind: str, *, paused: bool) -> dict[str, Any]:
        """The flow, paused or resumed."""

    def remove(self, ref: str, kind: str) -> dict[str, Any]:
        """`{alias, kind}` of what was removed."""

    def run(self, ref: str, kind: str) -> dict[str, Any]:
        """The run that was asked for."""

    def get_run(self, run_id: str) -> dict[str, Any]:
        """A run."""

    def cancel(self, run_id: str) -> dict[str, Any]:
        """The run as it is now."""

    def progress(self, job_id: str) -> Mapping[str, object]:
        """How far the job of a run is."""


class VariableBackend(Protocol):
    """Verbs of variables of a dataset."""

    def listed(self, ref: str) -> list[dict[str, Any]]:
        """All, secrets without their values."""

    def set(self, ref: str, name: str, value: str, *, secret: bool) -> dict[str, Any]:
        """The variable."""

    def remove(self, ref: str, name: str) -> None:
        """Raises NotFound for a variable that is not there."""


class WebhookBackend(Protocol):
    """Verbs of webhooks.

    `ref` is a dataset, `@account` for a whole account or `@` for the node.
    """

    def listed(self, ref: str) -> list[dict[str, Any]]:
        """The subscriptions of a dataset that one may see."""

    def add(
        self,
        ref: str,
        url: str,
        *,
        form: str,
        secret: str | None,
        events: Sequence[str] | None = None,
        moves: Mapping[str, object],
    ) -> dict[str, Any]:
        """The subscription with its secret.

        Without `events` it receives the default types. `moves` has members of the body, as `rows`.
        """

    def deliveries(self, ref: str, subscription: str) -> list[dict[str, Any]]:
        """The delivery log, newest first."""

    def change(self, ref: str, subscription: str, *, paused: bool) -> dict[str, Any]:
        """The subscription, paused or resumed."""

    def test(self, ref: str, subscription: str) -> dict[str, Any]:
        """What the receiver answered to a test event."""

    def rotate(self, ref: str, subscription: str, *, overlap_s: int | None) -> dict[str, Any]:
        """The subscription with its new secret."""

    def replay(self, ref: str, subscription: str, *, from_sequence: int | None) -> dict[str, Any]:
        """How many deliveries go out again."""

    def remove(self, ref: str, subscription: str) -> dict[str, Any]:
        """`{id}` of what has ended."""


class Backend(Protocol):
    """Verbs of the command line; results are the JSON values that `-o json` prints."""

    @property
    def cursors(self) -> CursorBackend:
        """Verbs of cursors."""

    @property
    def flows(self) -> FlowBackend:
        """Verbs of flows."""

    @property
    def variables(self) -> VariableBackend:
        """Verbs of variables."""

    @property
    def webhooks(self) -> WebhookBackend:
        """Verbs of webhooks. Raises InvalidRequest for a workspace."""

    @property
    def heads(self) -> HeadBackend:
        """Verbs of signed heads and their keys."""

    @property
    def sharing(self) -> SharingBackend:
        """Verbs of repositories elsewhere, and of pushes there."""

    @property
    def history(self) -> HistoryBackend:
        """Verbs that rewrite history."""

    @property
    def people(self) -> PeopleBackend:
        """Verbs of accounts and rights."""

    def add(self, path: str, *, visibility: Visibility | None = None) -> list[dict[str, object]]:
        """Create the datasets of a manifest file (`-` is standard input).

        Without a visibility they are private.
        """

    def set_transform(self, path: str, *, anew: bool = False) -> list[dict[str, object]]:
        """Give existing datasets the transforms of a manifest file.

        `{id, alias, head, blocks, verdict, reason}`.
        """

    def set_source(self, path: str) -> list[dict[str, object]]:
        """Give existing datasets the sources of a manifest file.

        `{id, alias, head, blocks, sources, columns}`.
        """

    def set_info(self, path: str) -> list[dict[str, object]]:
        """Give existing datasets the description, licence and documents of a file.

        The file is a manifest: `{id, alias, head, blocks}`.
        """

    def datasets(self) -> list[dict[str, object]]:
        """`{id, alias, kind, head}` of all datasets."""

    def show(self, ref: str) -> dict[str, object]:
        """A dataset's metadata."""

    def push(self, ref: str, push: PushFile) -> dict[str, object]:
        """`{head, blocks, offsets, rows}` once committed."""

    def try_push(self, ref: str, push: PushFile) -> dict[str, object]:
        """What a push would do.

        `{rows, operations, changes, sample, ..}`, or `{rows, refused, refusedCount, problem}`.
        """

    def pull(
        self,
        ref: str,
        *,
        url: str | None,
        recursive: bool,
        fetch_uncacheable: bool = False,
        fetch_again: bool = False,
        allow_shrink: bool = False,
        force: bool = False,
        recompute: bool = False,
    ) -> dict[str, object]:
        """`{id, alias, head, blocks, offsets, rows, upToDate}`; `poll` of a polling one."""

    def log(self, ref: str, *, limit: int) -> list[dict[str, object]]:
        """`{hash, block}`, newest first."""

    def tail(
        self, ref: str, *, limit: int, skip: int, as_at: str | None = None, corrects: bool = False
    ) -> list[dict[str, object]]:
        """The last rows, oldest first. `as_at` is a time or a block.

        With `corrects` they have a last column `(corrects)`: the record that a correction or withdrawal is about.
        """

    def state(self, ref: str, *, as_at: str | None, as_of: str | None, limit: int, skip: int) -> dict[str, object]:
        """`{block, sequenceNumber, systemTime, asOf?, source, rows, data, ...}`.

        `as_at` is a time or a block.
        """

    def sql(
        self, query: str, *, limit: int, as_at: str | None = None, as_of: str | None = None
    ) -> list[dict[str, object]]:
        """Rows of a query. `as_at` is a time or a block."""

    def why(self, ref: str, asked: WhyRequest) -> dict[str, object]:
        """Why records are there: `{records, datasets, cost, next, ..}`."""

    def why_in(self, ref: str, asked: WhyRequest, form: Literal["prov", "openlineage"], *, namespace: str) -> object:
        """The same as PROV-JSON, or as OpenLineage events of the place `namespace`.

        A node names itself.
        """

    def verify(self, ref: str, wish: VerifyWish) -> dict[str, object]:
        """`{ok, errors}`, with `report` if one is wanted."""

    def delete(self, ref: str) -> dict[str, object]:
        """`{id, alias}` of what was deleted."""

    def rename(self, ref: str, name: str) -> dict[str, object]:
        """`{id, alias}` with the new name."""


def source_text(path: str, *, bytes_max: int) -> tuple[str, str]:
    """Text of a file or of standard input, and what to call it in errors.

    Raises NotFound, InvalidRequest, LimitExceeded.
    """
    if path == "-":
        data, shown = sys.stdin.buffer.read(bytes_max + 1), "<stdin>"
    else:
        data, shown = _file_bytes(path, bytes_max), path
    if len(data) > bytes_max:
        raise LimitExceeded(f"{shown} is too large", limit="manifest_bytes_max", maximum=bytes_max)
    try:
        return data.decode("utf-8"), shown
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidRequest("not UTF-8", place=Place(file=shown, line=line)) from None


def _file_bytes(path: str, bytes_max: int) -> bytes:
    check_file(path)
    with Path(path).open("rb") as stream:
        return stream.read(bytes_max + 1)


def check_file(path: str) -> None:
    """Raises NotFound or InvalidRequest for what is no readable file."""
    try:
        exists, is_file = Path(path).exists(), Path(path).is_file()
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None
    if not exists:
        raise NotFound("file", path)
    if not is_file:
        raise InvalidRequest(f"{path} is not a file")


def check_writable(path: Path, *, field: str) -> None:
    """Raise InvalidRequest for a file that cannot be written.

    Called before there is something to write.
    """
    if path.is_dir():
        raise InvalidRequest(f"{path} is a folder", place=Place(field=field), hint="name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        hint = "name a file in a folder that is there and that you may write to"
        raise InvalidRequest(f"{path} cannot be written", place=Place(field=field), hint=hint)


def media_type_of(path: str) -> str | None:
    """Media type by the file's ending; None leaves it to the source."""
    return MEDIA_TYPES.get(Path(path).suffix.lower())


def linked_rows(answer: Mapping[str, Any]) -> list[dict[str, object]]:
    """Rows of a tail; with `corrects` in the answer they have a column for it."""
    rows: list[dict[str, object]] = answer["data"]
    about: Mapping[str, int | None] | None = answer.get("corrects")
    if about is None:
        return rows
    # The first column is the offset, as in every dataset.
    return [{**row, "(corrects)": about.get(str(next(iter(row.values()))))} for row in rows]

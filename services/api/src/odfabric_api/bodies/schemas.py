"""Shapes of answers, for the OpenAPI document `docs/openapi.json`.

Owns what a client may rely on. The answers themselves are made by the use cases; the tests hold every answer to these models. Not
here: shapes of requests, which stand beside their routes.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from odfabric_api.problems import PROBLEM_MEDIA_TYPE

HASH = "Multihash as base16 text, `f1620` and 64 digits"


class Answer(BaseModel):
    """Members in camelCase; a client ignores those it does not know."""

    model_config = ConfigDict(alias_generator=to_camel)


class ProblemPlace(Answer):
    """One thing that is wrong, and where: lines, columns and rows count from 1."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None
    row: int | None = None
    rule: str | None = None
    query_line: int | None = Field(
        None, description="Within the query, where line and column are those of its manifest"
    )
    query_column: int | None = None
    hint: str | None = Field(None, description="What to do, where several things are wrong with a query")
    suggestion: str | None = Field(None, description="A query that says the same and is accepted")


class Problem(Answer):
    """Any failure (RFC 9457).

    `type` and `code` are stable; `message` is for people; places stand at the top for one error too.
    """

    type: str
    code: str
    title: str
    status: int
    detail: str
    message: str
    errors: list[ProblemPlace] | None = None
    hint: str | None = None
    limit: str | None = Field(None, description="Name of the setting that was hit")
    maximum: float | None = Field(None, description="Its value, in the unit of its name")
    kind: str | None = Field(None, description="The reference's name of a chain error")
    expected: str | None = Field(None, description="The head that If-Match named")
    actual: str | None = Field(None, description="The head that was found")
    used_by: list[str] | None = Field(None, description="Names of those that depend on it")


class HealthParts(Answer):
    """Whether each part answers."""

    database: bool
    objects: bool


class Health(Answer):
    """Whether the node can serve. The engine is not asked: reading does not need it."""

    ok: bool
    parts: HealthParts


class DutyView(Answer):
    """One duty of the node, and the last report that any worker gave of it."""

    duty: Literal["relay", "deliver", "schedule", "audit", "index", "collect"]
    state: Literal["works", "fails", "silent"]
    reported_at: str | None
    worker: str | None
    error: str | None
    failing_since: str | None


class DutyList(Answer):
    """All duties."""

    duties: list[DutyView]


class NodeInfo(Answer):
    """What kind of node this is."""

    is_multi_tenant: bool


class DatasetCreated(Answer):
    """A new dataset and its first head."""

    id: str
    alias: str
    head: str = Field(description=HASH)


class TransformChanged(Answer):
    """A changed transform.

    `verdict` and `reason` are null if it has never run or nothing was to be changed.
    """

    id: str
    alias: str
    head: str = Field(description=HASH)
    blocks: list[str]
    verdict: Literal["compatible", "migration", "refused"] | None
    reason: str | None


class InfoChanged(Answer):
    """Changed texts of a dataset."""

    id: str
    alias: str
    head: str = Field(description=HASH)
    blocks: list[str]


class SourcesChanged(Answer):
    """Changed sources; `columns` are those that the dataset has got by it."""

    id: str
    alias: str
    head: str = Field(description=HASH)
    blocks: list[str]
    sources: list[str] = Field(description="What was changed, for people")
    columns: list[str]


class DatasetListed(Answer):
    """One line of a listing."""

    id: str
    alias: str
    kind: Literal["Root", "Derivative"]
    head: str = Field(description=HASH)


class DatasetPage(Answer):
    """A page; the Link header leads to the next one."""

    datasets: list[DatasetListed]


class Owner(Answer):
    """An account."""

    account_name: str
    account_id: str


class DatasetFound(Answer):
    """Whose a dataset is and how it is called."""

    id: str
    owner: Owner
    dataset_name: str


class Offsets(Answer):
    """The closed interval of new records."""

    start: int
    end: int


class RowCounts(Answer):
    """What became of the rows of an ingest; a corrected row is two records."""

    added: int
    corrected: int
    retracted: int
    unchanged: int | None = Field(
        None, description="Given rows that changed nothing; absent if counting them would have taken too long"
    )
    known_keys: int | None = Field(
        None, alias="knownKeys", description="Given rows that a Ledger left out, for it has a row of their key"
    )


class RenamedColumns(Answer):
    """A column stored under another name, since its own is that of a system column."""

    old: str = Field(alias="from")
    new: str = Field(alias="to")


class UndeclaredFields(Answer):
    """A field that no column is declared for, not stored; how many rows have a value."""

    name: str
    rows: int


class RejectedCount(Answer):
    """Rows of the data that could not be read, and the dataset that has them."""

    rows: int
    dataset: str


class PushResult(Answer):
    """What a push committed; `blocks`, oldest first, is empty if nothing was new."""

    head: str = Field(description=HASH)
    blocks: list[str]
    offsets: Offsets | None
    rows: int = Field(description="Records of the commit")
    changes: RowCounts | None = None
    renamed_columns: list[RenamedColumns] | None = Field(None, alias="renamedColumns")
    undeclared_fields: list[UndeclaredFields] | None = Field(None, alias="undeclaredFields")
    rejected_rows: RejectedCount | None = Field(None, alias="rejectedRows")
    added_columns: list[str] | None = Field(
        None, alias="addedColumns", description="Columns that the dataset got for fields that were new"
    )
    watermark_ahead: str | None = Field(
        None, alias="watermarkAhead", description="The new watermark, if the rows put it more than a year ahead"
    )


class TrialResult(Answer):
    """What a push would do.

    With a `problem` it would be refused, and `refused` has the first of all values that are.
    """

    rows: int | None = Field(description="Rows read, null if nobody has counted them")
    operations: dict[str, int] | None = Field(None, description="Records by kind: 0 append, 1 retract, 2 and 3 correct")
    changes: RowCounts | None = None
    renamed_columns: list[RenamedColumns] | None = Field(None, alias="renamedColumns")
    undeclared_fields: list[UndeclaredFields] | None = Field(None, alias="undeclaredFields")
    added_columns: list[str] | None = Field(None, alias="addedColumns")
    rejected: int | None = Field(None, description="Rows that would go to the quarantine of the source")
    sample: list[dict[str, Any]] | None = Field(None, description="The first records")
    refused: list[dict[str, Any]] | None = Field(None, description="By line and column")
    refused_count: int | None = Field(None, alias="refusedCount")
    problem: dict[str, Any] | None = None


JobStatusName = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class AcceptedJob(Answer):
    """A job by its id."""

    id: str
    status: JobStatusName


class Accepted(Answer):
    """The work is durable and will be done; the Location header leads to the job."""

    job: AcceptedJob


class JobView(Answer):
    """A job.

    `result` is the verb's own; `error` is a problem, of the last attempt while the job is not finished.
    """

    id: str
    kind: Literal["push", "pull", "verify", "index", "judge", "try", "send", "compact", "why"]
    dataset: str | None
    status: JobStatusName
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    attempts: int
    created_at: str
    updated_at: str


class VariableView(Answer):
    """A variable of a dataset's source; a secret has no value here."""

    name: str
    secret: bool
    value: str | None = None
    changedAt: str


class VariableList(Answer):
    """All variables of a dataset's source."""

    variables: list[VariableView]


class WaitView(Answer):
    """Why a run has not started."""

    reason: Literal["starting", "late", "time", "records", "inputs", "run", "paused", "stopped", "turn"]
    text: str
    until: str | None = None
    records: int | None = Field(None, description="New records that wait, of `needed`")
    needed: int | None = None
    datasets: list[str] | None = Field(None, description="Those that run first")
    runs: int | None = Field(None, description="Runs at work")


class RunView(Answer):
    """A run of a flow. `causes` are its first ones, `job` is that of its last attempt."""

    id: str
    flow: str
    dataset: str
    status: Literal["waiting", "running", "succeeded", "failed", "cancelled", "missed"]
    attempt: int
    job: str | None
    causes: list[dict[str, Any]]
    cause_count: int
    due_at: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class FlowView(Answer):
    """A flow: what keeps a dataset up to date.

    `waits` is why its next run has not started.
    """

    id: str
    dataset: str
    alias: str
    kind: Literal["poll", "transform", "mirror", "verify"]
    rule: dict[str, Any] = Field(description="As `PUT` takes it")
    summary: str = Field(description="When it runs, in words")
    is_default: bool = Field(description="Nobody has decided about it")
    status: Literal["active", "paused", "stopped"]
    stopped: dict[str, str] | None
    failures: int = Field(description="Failed runs in a row")
    next_at: str | None
    version: int
    waits: WaitView | None
    runs: list[RunView]


class Flows(Answer):
    """Flows."""

    flows: list[FlowView]


class Rows(Answer):
    """Rows in the asked form, and their schema if asked for."""

    data: list[Any] | dict[str, list[Any]]
    data_format: Literal["JsonAoS", "JsonSoA", "JsonAoA"]
    non_finite_columns: list[str] | None = Field(
        None, description="Columns in which some null stands for NaN or an infinity, for which JSON has no word"
    )
    rows_schema: dict[str, Any] | str | None = Field(None, alias="schema")
    schema_format: str | None = None
    corrects: dict[str, int | None] | None = Field(
        None, description="By offset of a correction or withdrawal the record that it is about; null: not found"
    )


class StateAnswer(Rows):
    """Net rows after a block; `rows` counts all of them, `data` holds the asked ones."""

    block: str
    sequence_number: int
    system_time: str
    source: Literal["index", "chain"]
    rows: int


class QueryAnswer(Answer):
    """Rows; with `Input`, the query as it was run, every dataset pinned to its block."""

    output: Rows
    input: dict[str, Any] | None = None


class Metadata(Answer):
    """The asked parts of the current metadata, events in manifest form."""

    output: dict[str, Any]


class SigningKeyShown(Answer):
    """A public Ed25519 key as a JSON Web Key."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: str = Field(description="The key, base64url")
    kid: str = Field(description="Its RFC 7638 thumbprint: the `keyid` of signatures")
    use: Literal["sig"]
    alg: Literal["EdDSA"]


class SigningKeySet(Answer):
    """Public keys, the one that signs first."""

    keys: list[SigningKeyShown]


class SubscriptionListed(Answer):
    """A webhook without its secret."""

    id: str
    url: str
    created_at: str
    created_at_head: str | None = Field(
        description="Head of its dataset at that time; null unless it is of one dataset"
    )
    events: list[str] = Field(description="Types of events that it receives")
    format: Literal["cloudevents", "kamu"]
    only_with_data: bool = Field(description="Whether changes that bring no records make no event")
    columns: list[str] = Field(description="Columns in which a change makes an event; empty for all")
    rows: bool = Field(description="Whether events carry the changed records")
    state: Literal["active", "paused", "disabled"]
    state_reason: str | None = Field(description="Why the node has disabled it")
    failing_since: str | None = Field(description="The first failure after the last success")
    old_secret_until: str | None = Field(description="Until then the secret before the present one signs too")


class SubscriptionMade(SubscriptionListed):
    """A webhook with a new secret, which is never shown again."""

    secret: str


class SubscriptionList(Answer):
    """All subscriptions of a dataset, an account or the node."""

    subscriptions: list[SubscriptionListed]


class DeliveryView(Answer):
    """One event for one subscription, and how far its delivery is."""

    id: str
    sequence: int
    type: str = Field(description="Type of the event, without `dev.odfabric.`")
    dataset_id: str
    old_head: str | None
    new_head: str | None
    occurred_at: str
    status: Literal["pending", "delivered", "failed", "dropped"]
    attempts: int
    next_attempt_at: str
    last_status_code: int | None
    last_error: str | None


class AttemptView(Answer):
    """One attempt at a delivery: what was sent, and what came of it."""

    number: int = Field(description="From 1; a replay starts at 1 again")
    at: str
    duration_ms: int
    status_code: int | None
    failure: Literal["dns", "connect", "tls", "time", "refused", "status", "broken", "node"] | None = Field(
        description="What it failed of; null if the receiver accepted it"
    )
    error: str | None
    request_headers: dict[str, str] = Field(description="Without signatures")
    request_body: str
    response: str = Field(description="The first 16 KiB of the answer, as text")


class DeliveryWithAttempts(DeliveryView):
    """One delivery with the attempts that are still kept, newest first."""

    attempt_log: list[AttemptView]


class ReplayCount(Answer):
    """How many deliveries are pending again."""

    replayed: int


class DeliveryList(Answer):
    """Deliveries, newest first."""

    deliveries: list[DeliveryView]


class CursorView(Answer):
    """What a consumer has acknowledged."""

    consumer: str
    mode: Literal["baseline", "listen"]
    position: str = Field(description="Opaque; grows, and belongs to this chain alone")
    lease_until: str = Field(description="Until then nobody else gets it without the fence")
    created_at: str
    updated_at: str


class CursorHeld(CursorView):
    """A cursor with the fence of its holder, which nobody else learns."""

    fence: str


class CursorList(Answer):
    """All cursors of a dataset."""

    cursors: list[CursorView]


class ConsumedEvent(Answer):
    """One event of consumed changes: a portion of a baseline, changes, or a reset.

    A portion of a baseline (`baseline`) or of the changes of one block (`changes`), or that the dataset was replaced
    and has to be read from a new baseline (`reset`). Rows of changes have their operation as a word."""

    id: str = Field(description="The same at each delivery")
    kind: Literal["baseline", "changes", "reset"]
    block: str | None = None
    sequence: int | None = Field(None, description="Number of the block")
    system_time: str | None = None
    last: bool | None = Field(None, description="Whether nothing of the baseline or block comes after it")
    rows: list[dict[str, Any]] | None = None
    from_epoch: str | None = None
    to_epoch: str | None = None
    common_ancestor: str | None = None


class Fetched(Answer):
    """What comes next for a consumer; `event` is null if there is nothing yet."""

    consumer: str
    lease_until: str
    event: ConsumedEvent | None
    position: str = Field(description="To be acknowledged once the event is safe with the consumer")


class Changes(Answer):
    """What there is at a position; `event` is null if there is nothing yet."""

    event: ConsumedEvent | None
    position: str = Field(description="Where to go on once the event is safe with the consumer")


def answers(
    model: type[BaseModel] | UnionType | None,
    *,
    status: int = 200,
    text: str = "Done",
    also: dict[int, type[BaseModel]] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: its answer, other non-failures, and problems."""
    found: dict[int | str, dict[str, Any]] = {status: {"description": text}}
    if model is not None:
        found[status]["model"] = model
    for other, its_model in (also or {}).items():
        found[other] = {"description": "Accepted" if other == 202 else "Done", "model": its_model}
    problem = {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}
    found["default"] = {"description": "A problem", "content": {PROBLEM_MEDIA_TYPE: problem}}
    return found

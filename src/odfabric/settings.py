"""Settings: the one table of limits and places, names with their units.

Owns every limit of the node and its default; only `wiring` and the services' entry points read it, everything below gets
values as parameters. Environment variables have the prefix `ODF_` (`ODF_PUSH_WAIT_S_MAX=5`). docs/settings.md is made from it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict, SettingsError

from odfabric.errors import InvalidRequest, Place
from odfabric.history_settings import HistorySettings
from odfabric.ingest_settings import IngestSettings
from odfabric.provenance_settings import ProvenanceSettings
from odfabric.source_settings import SourceSettings
from odfabric.transfer_settings import TransferSettings

MIB = 1024 * 1024
GIB = 1024 * MIB


OBJECTS_URL_PATTERN = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*/?$"

ENGINE_NAME_PATTERN = r"^[a-z][a-z0-9-]{0,30}$"

EngineOption = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,63}$")]

HTTP_URL_PATTERN = r"^https?://[^/@\s]+/?$"


PROVIDER_NAME_PATTERN = r"^[a-z][a-z0-9-]{0,30}$"

IdTokenAlgorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]


class OidcProviderSettings(BaseModel):
    """An OpenID Connect provider as `oidc_providers` describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Annotated[str, StringConstraints(pattern=r"^https?://[^@\s?#]+$", max_length=500)]
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    client_secret: SecretStr | None = None
    scopes: tuple[Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]{1,100}$")], ...] = (
        "openid",
        "profile",
        "email",
    )
    label: Annotated[str, StringConstraints(max_length=100)] = ""
    allow_sign_up: bool = False
    allowed_domains: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,253}$")], ...] = ()
    algorithms: Annotated[tuple[IdTokenAlgorithm, ...], Field(min_length=1)] = ("RS256", "PS256", "ES256", "Ed25519")


class Settings(IngestSettings, ProvenanceSettings, SourceSettings, TransferSettings, HistorySettings):
    """Everything that can be set. Field descriptions are the documentation."""

    model_config = SettingsConfigDict(env_prefix="ODF_", extra="ignore", frozen=True)

    # places
    workspace: Path = Field(Path(".odf-workspace"), description="Folder of the embedded node: database, objects, keys")
    database_url: str | None = Field(
        None, description="Database, `postgresql://user:password@host/name`; default: SQLite in the workspace"
    )
    objects_url: str | None = Field(
        None,
        pattern=OBJECTS_URL_PATTERN,
        description="Objects, `s3://bucket/prefix`; default: a folder in the workspace",
    )
    s3_endpoint_url: str | None = Field(
        None, pattern=HTTP_URL_PATTERN, description="S3 server, `http(s)://host:port`; default: the one of AWS"
    )
    s3_public_endpoint_url: str | None = Field(
        None,
        pattern=HTTP_URL_PATTERN,
        description="The same server as peers and browsers reach it, for links; default: links with AWS only",
    )
    s3_region: str = Field("us-east-1", description="Region of the bucket")
    s3_access_key: SecretStr | None = Field(
        None, description="Key to the bucket; default: what the SDK finds (environment, profile, role of the machine)"
    )
    s3_secret_key: SecretStr | None = Field(None, description="Secret that belongs to it")
    s3_create_bucket: bool = Field(
        False, description="Whether `odf init` and `odf up` make the bucket if it is not there"
    )
    s3_connect_s_max: float = Field(10.0, description="Longest wait for a connection to the S3 server")
    s3_read_s_max: float = Field(60.0, description="Longest wait for the next bytes of the S3 server")
    s3_attempts_max: int = Field(4, description="Attempts at one request to the S3 server")
    object_cache_bytes_max: int = Field(
        10 * GIB, description="Copies of objects in S3 that are kept in the workspace; 0 = none"
    )
    object_link_s: int = Field(
        5,
        description="Lifetime of links to objects in S3 that peers are sent to, and so how long a withdrawn right goes on for them; "
        "0 = the api hands out the bytes itself",
    )
    heads: Literal["database", "objects"] = Field(
        "database",
        description="Where the heads of record are; `objects`: in `refs/head`, for nodes that share a bucket and no database",
    )
    heads_poll_s: float = Field(
        2.0, gt=0, description="Pause between looks at the heads in the objects, for commits that other nodes made"
    )
    redis_url: str | None = Field(
        None,
        pattern=r"^(rediss?|unix)://",
        description="Redis that wakes workers and counts requests for all processes together, `redis://host:6379/0`; default: workers "
        "look every `job_poll_s`, each process counts by itself",
    )
    redis_name: str = Field("node", description="Tells this node from others that use the same Redis")
    poll_folder: Path | None = Field(
        None, description="Folder below which polling sources may read files; unset = refused"
    )
    poll_anywhere: bool = Field(
        False, description="Polling sources may read every file of the user (local workspace only)"
    )
    egress_allow: tuple[str, ...] = Field((), description="Non-public `host:port` or networks that requests may reach")

    database_busy_s_max: float = Field(10.0, description="Longest wait for a lock of the database")
    database_connections_max: int = Field(16, description="Connections of one process to the database, for its work")
    database_locks_max: int = Field(
        8,
        ge=2,
        description="Further connections that hold locks where objects are in S3 and the database is PostgreSQL",
    )

    # secrets at rest
    key_file_wait_s_max: float = Field(
        30.0, ge=0, description="Longest wait for the key file while another process changes the node's key"
    )
    seal_portion_max: int = Field(
        500, ge=1, description="Secrets that one transaction seals with a new key of the node"
    )

    # identity
    token: SecretStr | None = Field(
        None, description="Bearer token of the node; default: made at first start, kept in the workspace"
    )
    anonymous_read: bool = Field(False, description="Whether requests without a token may read")

    public_url: str | None = Field(
        None,
        pattern=HTTP_URL_PATTERN,
        description="Address by which people and programs reach this node, `https://odf.example.org`, to which identity providers send "
        "browsers back; default: where it listens",
    )
    session_s: float = Field(
        30 * 24 * 3600.0, gt=0, description="How long somebody stays signed in, in a browser or at the command line"
    )
    device_s: float = Field(600.0, gt=0, description="How long a command that signs in waits for its person")
    device_interval_s: int = Field(2, ge=1, description="Least pause between two questions of such a command")
    device_authorisations_max: int = Field(1000, ge=1, description="Commands that wait at once")
    invitation_s: float = Field(
        3 * 24 * 3600.0, gt=0, description="How long a link for a new account or password works"
    )
    opening_link_s: float = Field(
        600.0, gt=0, description="How long the link works by which `odf up` opens the console without a password"
    )
    tokens_per_account_max: int = Field(1000, ge=1, description="Access tokens of one account that are not revoked")
    saved_queries_per_account_max: int = Field(200, ge=1, description="Saved queries of one account")
    collaborators_max: int = Field(1000, ge=1, description="Accounts with a role on one dataset")
    members_max: int = Field(1000, ge=1, description="Members of one organisation")
    organisations_per_account_max: int = Field(100, ge=1, description="Organisations of which one account is a member")
    refusals_window_s: float = Field(
        600.0, gt=0, description="Time in which refusals that repeat are one entry of the audit, counted"
    )
    password_characters_min: int = Field(
        15,
        ge=8,
        description="Shortest password that may be chosen; 15 is what NIST SP 800-63B-4 asks of a password that is the only factor",
    )
    password_bytes_max: int = Field(1024, ge=64, description="Longest password, in UTF-8")
    password_memory_mib: int = Field(64, ge=19, description="Memory for one hash of a password (Argon2id)")
    password_passes: int = Field(3, ge=2, description="Passes of a hash over its memory")
    password_hashes_at_once_max: int = Field(
        2, ge=1, description="Hashes of passwords that one process computes at once"
    )
    password_hashes_waiting_max: int = Field(
        16, ge=0, description="Callers that wait for one; more get 429 with Retry-After"
    )

    rate_limit_keys_max: int = Field(
        100_000,
        ge=1,
        description="Accounts and addresses whose requests one process counts without Redis; of more, those that asked longest ago "
        "are forgotten",
    )
    account_datasets_max: int = Field(
        10_000, ge=0, description="Datasets of one account, for which no admin has set another limit"
    )
    account_stored_bytes_max: int = Field(
        1024 * GIB, ge=0, description="Bytes of the datasets of one account, the same"
    )
    account_pushes_per_minute_max: int = Field(
        6000, ge=0, description="Pushes of one account within a minute, the same"
    )
    account_queries_at_once_max: int = Field(
        4, ge=1, description="Queries of one account, or of strangers from one address, in one api at once, the same"
    )
    sign_ins_per_address_max: int = Field(
        30, ge=1, description="Attempts to sign in from one address within `sign_in_window_s`"
    )
    sign_ins_per_account_max: int = Field(10, ge=1, description="Failed attempts for one name in that time")
    sign_in_window_s: int = Field(300, ge=1, description="The time in which they are counted")
    audit_flush_s: float = Field(
        60.0, gt=0, description="Pause between two pushes of new entries of the audit into the dataset `system/audit`"
    )
    audit_flush_entries_max: int = Field(10_000, ge=1, description="Most entries of one such push")
    audit_kept_s: float = Field(
        30 * 24 * 3600.0, description="How long entries stay in the database after they are in that dataset"
    )

    oidc_providers: dict[Annotated[str, StringConstraints(pattern=PROVIDER_NAME_PATTERN)], OidcProviderSettings] = (
        Field(
            {},
            description="OpenID Connect providers by name (JSON object): `issuer`, `client_id`, `client_secret`, and if they are not "
            "the usual ones `scopes`, `label`, `allow_sign_up` (false), `allowed_domains` (all), `algorithms`. Requests may reach the "
            "issuer's own `host:port` wherever it is",
        )
    )
    oidc_request_s_max: float = Field(10.0, gt=0, description="Longest request to such a provider")
    oidc_answer_bytes_max: int = Field(1 * MIB, ge=1024, description="Largest answer of one")
    oidc_metadata_s: float = Field(
        3600.0, ge=0, description="How long what it says of itself and its keys are remembered"
    )
    oidc_clock_leeway_s: int = Field(60, ge=0, le=600, description="How far its clock may be from ours")
    oidc_sign_in_s_max: float = Field(600.0, gt=0, description="How long somebody may take to sign in there")

    node_uri: str = Field("urn:odfabric:local", description="URI of this node: the source of its events")

    # http edge
    push_body_bytes_max: int = Field(4 * GIB, description="Largest body of a push")
    manifest_bytes_max: int = Field(1 * MIB, description="Largest manifest")
    manifest_depth_max: int = Field(64, le=64, description="Deepest nesting of a manifest; cannot be raised")
    manifest_nodes_max: int = Field(100_000, description="Most values of a manifest")
    json_body_bytes_max: int = Field(1 * MIB, description="Largest JSON body of other requests")
    header_bytes_max: int = Field(32 * 1024, description="All headers of a request")
    header_line_bytes_max: int = Field(8 * 1024, description="One line of a request head")
    header_wait_s_max: float = Field(10.0, description="Time in which the request head must arrive")
    keep_alive_s_max: int = Field(15, description="How long a connection may wait for its next request")
    body_bytes_per_s_min: int = Field(1024, description="Slowest body that is read, and slowest reader of an answer")
    body_start_s: float = Field(10.0, description="How long a body or reader may fall behind its least rate")
    body_wait_s_max: float = Field(3600.0, description="Time in which a body must arrive whole")
    linger_s_max: float = Field(1.0, description="How long the rest of a refused request is read and dropped")
    query_body_bytes_max: int = Field(4 * MIB, description="Largest body of a query: its text with JSON escapes")
    push_wait_s_max: float = Field(30.0, description="How long a push waits for its commit before it answers 202")
    connections_at_once_max: int = Field(1000, description="Open connections; one more gets 429 and is closed")
    requests_at_once_max: int = Field(64, description="Requests served at once; more get 429 with Retry-After")
    pushes_at_once_max: int = Field(32, description="Pushes among them, arriving or waiting for their commit")
    queries_at_once_max: int = Field(8, description="Queries among them")
    health_wait_s_max: float = Field(2.0, description="How long a part of the node may take to say that it is well")
    shutdown_s_max: float = Field(10.0, description="How long requests under way may take when the service ends")
    page_rows_max: int = Field(1000, description="Entries of one page of a listing")

    # formats and chains
    block_bytes_max: int = Field(16 * MIB, le=16 * MIB, description="Largest metadata block; cannot be raised")
    object_bytes_max: int = Field(64 * GIB, description="Largest data slice or checkpoint taken from elsewhere")
    chain_blocks_max: int = Field(10_000_000, description="Longest chain that is walked")
    rebuild_page_blocks_max: int = Field(1000, ge=1, description="Blocks that a rebuild keeps in memory at once")
    garbage_lifetime_s: float = Field(
        24 * 3600.0,
        description="Age at which an object that no chain names is collected, and a deleted dataset's objects",
    )
    collect_portion_max: int = Field(100_000, ge=1, description="Objects that one step of the collector looks at")
    collect_every_s: float = Field(
        3600.0, description="Least time between two rounds of the collector over all objects"
    )
    commit_attempts_max: int = Field(10, description="Rebuilds on a new head before a commit gives up")
    chain_states_cached_max: int = Field(256, description="Folded chain states kept in memory")

    served_names_cached_max: int = Field(
        1_000_000,
        ge=0,
        description="Names of slices and checkpoints kept in memory for peers that ask for them; of more, chains are read again",
    )

    # transforms
    transform_rows_max: int = Field(
        5_000_000,
        ge=1,
        description="New records of all inputs together that one transaction of a derivative dataset reads, cut between blocks; "
        "a single block may have more, and the first transaction of a changed query reads everything",
    )
    transform_blocks_max: int = Field(10_000, ge=1, description="Blocks with data among them")
    transform_bytes_max: int = Field(
        512 * MIB,
        ge=0,
        description="Rows that the engine may have in hand at once for one of them: what needs more is divided, except for a single "
        "block; 0: any",
    )

    # queries and previews
    query_text_bytes_max: int = Field(1 * MIB, description="Longest SQL text")
    query_rows_max: int = Field(100_000, description="Most rows of one query answer")
    query_bytes_max: int = Field(256 * MIB, description="Largest result of one query")
    query_wall_s_max: float = Field(60.0, description="Longest run of one query")
    tail_rows_max: int = Field(10_000, description="Most rows of one tail answer")

    # current-state indexes
    index: Literal["auto", "off"] = Field(
        "auto", description="`auto`: datasets whose merges look up rows by key have an index; `off`: none has"
    )
    index_tail_blocks_max: int = Field(
        16, ge=1, description="Blocks that an index may be behind before it is brought forward, and slices it refers to"
    )
    index_tail_rows_min: int = Field(50_000, ge=1, description="Rows behind that alone are a reason to do so")
    index_tail_share_max: float = Field(
        0.25, gt=0, description="The same as a share of the rows that the index keeps; the greater of both counts"
    )
    index_history_blocks: int = Field(
        4, ge=0, description="Newest blocks of which an index can tell each state; older states come from the chain"
    )
    index_page_blocks_max: int = Field(1000, ge=1, description="Blocks that an index takes in at once")
    index_page_rows_max: int = Field(1_000_000, ge=1, description="Rows among them; a single slice may have more")
    state_rows_max: int = Field(5_000_000, ge=1, description="Most rows of a state that is read for an answer")

    # cursors
    fetch_rows_max: int = Field(10_000, ge=1, description="Most rows that a cursor gives at once")
    fetch_bytes_max: int = Field(
        16 * MIB, description="Largest JSON of the rows that a cursor gives at once; one row is given"
    )
    fetch_kept_bytes_max: int = Field(128 * MIB, description="Rows kept in memory for the next fetches of large slices")
    cursor_lease_s: float = Field(60.0, description="How long a consumer holds a cursor without a sign of life")
    cursors_per_dataset_max: int = Field(1000, description="Cursors of one account on one dataset")

    streams_at_once_max: int = Field(
        500, ge=1, description="Streams of changes, and requests that wait for some, at once"
    )
    account_streams_at_once_max: int = Field(100, ge=1, description="The same of one account")
    stream_kept_bytes_max: int = Field(32 * MIB, description="Events kept in memory that several streams send")
    changes_wait_s_max: float = Field(60.0, gt=0, description="Longest wait for changes of a request that is no stream")

    # jobs
    lease_s: float = Field(30.0, description="How long a worker holds a job without a sign of life")
    job_poll_s: float = Field(
        5.0, description="Longest pause between looks at an empty job table, with Redis too: what a lost signal costs"
    )
    worker_metrics_port: int | None = Field(
        None,
        description="Port on which a worker tells its metrics to everybody who reaches it; the api tells its own at /system/metrics",
    )
    worker_metrics_host: str = Field(
        "127.0.0.1", description="Address of that port; another one only where a network policy says who reaches it"
    )
    worker_lane: Literal["all", "heavy", "light"] = Field(
        "all",
        description="What a worker does: `heavy` jobs that ask the engine, `light` work that does not (relays, webhooks, schedules, the audit, "
        "indexes), or all",
    )
    job_threads: int = Field(2, ge=1, description="Heavy jobs that one worker does at once")
    light_job_threads: int = Field(1, ge=1, description="Light jobs that one worker does at once")
    job_attempts_max: int = Field(8, description="Attempts at a job that fails for outside reasons")
    job_retry_s: float = Field(0.5, description="First pause before another attempt; doubles")
    job_retry_s_max: float = Field(60.0, description="Longest pause before another attempt")
    job_retry_after_s_max: float = Field(
        600.0, ge=0, description="Longest pause before another attempt that a source or peer may ask for (Retry-After)"
    )
    # flows
    flows: bool = Field(
        True, description="Workers run flows: schedules, and derivative datasets that follow their inputs"
    )
    derivatives_follow: bool = Field(
        True, description="A derivative dataset follows its inputs at once unless somebody decides otherwise"
    )
    flow_runs_at_once_max: int = Field(4, ge=1, description="Runs of flows whose jobs are queued or at work together")
    flow_wave_wait_s: float = Field(
        60.0, ge=0, description="Longest wait of a derivative dataset for others on its way that run in the same wave"
    )
    flow_look_s: float = Field(5.0, gt=0, description="Longest pause between two rounds of the scheduler")
    flow_role_lease_s: float = Field(
        15.0, gt=0, description="After how long without a sign of life another worker becomes the scheduler"
    )
    flow_every_s_min: int = Field(10, ge=1, description="Shortest duration between two runs of a schedule")
    flow_runs_kept_max: int = Field(200, ge=1, description="Ended runs that are kept of each flow")
    flows_listed_max: int = Field(5000, ge=1, description="Flows that the list of all flows looks at")
    deliveries_at_once_max: int = Field(
        32,
        ge=1,
        description="Webhook deliveries under way at once in one worker; one receiver gets an eighth of them at most, one account half, "
        "slow receivers together an eighth",
    )
    delivery_attempts_kept: int = Field(
        100, ge=0, description="Attempts to deliver that are kept for each subscription, with request and answer"
    )

    # outgoing requests
    egress_ports: tuple[int, ...] = Field((80, 443, 8080, 8443), description="Ports that requests may reach")
    egress_connect_s_max: float = Field(30.0, description="Longest wait for a connection")
    egress_answer_s_max: float = Field(60.0, description="Longest wait for the first byte of an answer")
    egress_total_s_max: float = Field(3600.0, description="Longest fetch as a whole")
    egress_bytes_per_s_min: int = Field(1024, description="Slowest transfer that is still read")
    egress_rate_window_s: float = Field(10.0, description="Waiting time over which that rate is judged")
    egress_redirects_max: int = Field(10, description="Redirects that a fetch follows")
    egress_connections_max: int = Field(100, description="Connections at once")
    egress_idle_connections_max: int = Field(20, description="Connections kept for another request")
    egress_idle_connection_s_max: float = Field(3.0, description="How long each of them is kept")
    webhook_timeout_s: float = Field(20.0, description="Longest wait for a webhook's answer")
    webhook_rows_bytes_max: int = Field(
        256 * 1024,
        ge=1024,
        description="Largest JSON of the records that one event carries to a subscription that wants them; the rest begins at its `next`",
    )
    webhook_compared_bytes_max: int = Field(
        64 * MIB,
        ge=0,
        description="Slices of one change whose rows are compared for subscriptions that follow columns; a larger change makes an event",
    )
    webhook_secret_overlap_s: float = Field(
        86_400.0, ge=0, description="How long the old secret of a webhook signs too after a rotation that does not say"
    )
    signing_keys_kept_days: float = Field(
        30.0, gt=0, description="Days for which the public half of a retired signing key stays in the key set"
    )
    subscription_failing_days_max: float = Field(
        3.0,
        gt=0,
        description="Days of nothing but failures after which a subscription is disabled; its deliveries stay pending",
    )
    subscriptions_per_dataset_max: int = Field(100, description="Subscriptions of one dataset")

    # engine
    engine_address: str | None = Field(
        None, description="host:port of a running engine; default: one per workspace, on demand"
    )
    engine_token: SecretStr | None = Field(None, description="Token of a running engine")
    engine_memory_mib: int = Field(3072, ge=512, description="Heap of the engine's JVM; Spark starts with no less")
    engine_jvm_options: str = Field("", description="More flags for the engine's JVM, with spaces between them")
    engine_options: dict[EngineOption, int | float | bool] = Field(
        {},
        description="More settings of a workspace's engine, by name as in [engine-settings.md](engine-settings.md): "
        '`{"bound_bytes_max": 1073741824}`',
    )
    engine_sandbox: Literal["auto", "sealed", "unsealed"] = Field(
        "auto",
        description="How a workspace's engine is shut in: the strongest that is possible, nothing less than that, or not",
    )
    engine_idle_s: float = Field(300.0, description="Idle time after which a workspace's engine on demand ends")
    engine_start_s_max: float = Field(120.0, description="Longest wait for an engine to start")
    engine_owner_pid: int | None = Field(
        None, description="Process with which an engine started on demand ends; set by `odf up`"
    )
    engine_cache: Path | None = Field(
        None, description="Folder for the engine's class archive; default: in the workspace"
    )
    spark_master: str | None = Field(
        None,
        description="`spark://host:port` of a cluster that runs the tasks of the workspace's engine; default: the engine itself",
    )
    spark_secret_file: Path | None = Field(None, description="File with the secret of that cluster")
    engine_call_s_max: float = Field(4 * 3600.0, description="Longest ingest or transform")
    engine_validate_s_max: float = Field(
        60.0, gt=0, description="Longest judging of a query, and wait for what the engine says of itself"
    )
    engine_return_s_max: float = Field(
        60.0, ge=0, description="Longest wait of one call for an engine that went away to come back, in all"
    )
    engine_repeats_max: int = Field(
        1,
        ge=0,
        description="How often a query or judgement is repeated when the engine broke down while it worked on it; "
        "then it is refused",
    )
    engine_compat_listen: str | None = Field(
        None,
        description="`host:port` where the workspace's engine serves coordinators of the reference (they expect 5544), "
        "who need no token; default: nowhere",
    )
    engine_compat_beyond_loopback: bool = Field(
        False, description="Whether that may be an address which other machines reach: only on a private network"
    )
    engines: dict[Annotated[str, StringConstraints(pattern=ENGINE_NAME_PATTERN)], str] = Field(
        {},
        description="Engines of the reference for transforms of that `engine`, `host:port` by name (JSON object); "
        "`spark` is the node's own unless it is named here",
    )
    engines_folder: str | None = Field(
        None, description="What these engines call the node's exchange folder; default: its own path"
    )
    engines_start_s_max: float = Field(30.0, description="Longest wait until such an engine answers")
    validate_line_bytes_max: int = Field(4 * MIB, description="Longest line of `odf engine validate --batch`")
    validate_at_once_max: int = Field(4, ge=1, description="Queries of a batch that are judged at once")

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> Self:
        if (self.s3_access_key is None) != (self.s3_secret_key is None):
            raise ValueError("ODF_S3_ACCESS_KEY and ODF_S3_SECRET_KEY belong together")
        return self

    @model_validator(mode="after")
    def _providers_send_browsers_back(self) -> Self:
        if self.oidc_providers and self.public_url is None:
            raise ValueError("ODF_OIDC_PROVIDERS needs ODF_PUBLIC_URL, to which providers send browsers back")
        return self

    # looking inside
    log_format: Literal["text", "json"] = Field(
        "text", description="Lines of the logs of api and worker: for people, or one JSON object each"
    )
    otlp_endpoint: str | None = Field(
        None,
        description="Address of an OpenTelemetry collector to which api and worker send spans by OTLP over HTTP, such as "
        "`http://collector:4318/v1/traces`",
    )
    trace_share: float = Field(
        1.0, ge=0, le=1, description="Share of the traces begun here that are recorded; a caller's own decision is kept"
    )
    doctor_check_s_max: float = Field(
        10.0, gt=0, description="Longest time of all checks of `odf doctor`, which run at once"
    )
    doctor_free_mib_min: int = Field(
        512, ge=0, description="Free space on the workspace's disk below which `odf doctor` calls it full"
    )
    doctor_free_share_min: float = Field(
        0.1, ge=0, le=1, description="Share of free space, and of free inodes, below which it warns"
    )
    doctor_clock_s_max: float = Field(
        2.0, gt=0, description="How far the clocks of this machine and the database may be apart before it warns"
    )

    support_rows_max: int = Field(200, ge=1, description="Jobs, and runs of flows, that `odf support-bundle` tells")
    support_file_bytes_max: int = Field(
        512 * 1024, ge=1024, description="Longest file of a support bundle; of longer ones the end is kept"
    )

    # drills
    crash_at: str | None = Field(
        None, description="Crash point at which the process kills itself (see `odf system crash-points`)"
    )


def read_settings(**given: object) -> Settings:
    """Settings of the environment, in which `given` wins.

    Raises InvalidRequest naming the variable that is wrong.
    """
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = _variable(str(first["loc"][0])) if first["loc"] else None
        inner = ".".join(str(part) for part in first["loc"][1:])
        raise InvalidRequest(
            f"{inner}: {first['msg']}" if inner else str(first["msg"]), place=place, hint=_HINT
        ) from None
    except SettingsError as error:
        name = re.search(r'field "(\w+)"', str(error))
        raise InvalidRequest("not JSON", place=_variable(name[1] if name else ""), hint=_HINT) from None


_HINT = "docs/settings.md says what it takes; lists and maps are JSON"


def _variable(setting: str) -> Place:
    return Place(field=f"ODF_{setting.upper()}")

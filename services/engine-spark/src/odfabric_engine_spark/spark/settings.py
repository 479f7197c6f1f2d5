"""Settings of the engine: all limits, with names, units and defaults.

Owns every limit of the engine and its default; readers, merges and transforms get a `EngineSettings` and hold no constants of
their own. Each is an option of `python -m odfabric_engine_spark` (`--memory-mib 2048`). Not here: limits of the coordinator
(`odfabric.settings`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Everything that can be set.

    `exchange` is the folder shared with the coordinator; the engine opens files nowhere else. `cache` keeps the JVM's class
    archive between starts (None: none is kept). `crash_at` names the crash point at which the process kills itself.
    """

    exchange: Path
    cache: Path | None = None
    crash_at: str | None = None

    # process
    memory_mib: int = 3072
    """Heap of the JVM."""
    jvm_options: str = ""
    """More flags for the JVM, with spaces between them; one that chooses a collector of garbage takes the place of ours."""
    cores: int = os.cpu_count() or 1
    """Tasks that Spark runs at once."""
    shuffle_partitions: int = 2
    """Partitions of a shuffle. Small inputs dominate, and every partition costs a task."""
    start_s_max: float = 120.0
    """Longest wait for the JVM."""
    stop_s_max: float = 4.0
    """Longest wait for calls under way at a stop, and again for the JVM."""
    idle_s: float = 0.0
    """Time without a call after which the engine ends by itself; 0 means never."""
    owner_pid: int = 0
    """Process that the engine does not outlive; 0 means none."""

    # a cluster
    spark_master: str = ""
    """`spark://host:port` of a standalone cluster whose executors run the tasks; without it the engine runs them itself."""
    spark_secret: str = field(default="", repr=False)
    """What engine, master, workers and executors prove to one another, and encrypt with; it comes from a file."""
    spark_driver_host: str = "127.0.0.1"
    """Address of the engine, at which executors reach it."""
    spark_driver_port: int = 0
    """Port for messages of executors; 0: a free one."""
    spark_block_port: int = 0
    """Port from which executors fetch what queries need, and on which they offer blocks themselves; 0: a free one."""
    executors_max: int = 2
    """Executors that the engine asks for."""
    executor_cores: int = 1
    """Tasks that an executor runs at once."""
    executor_memory_mib: int = 2048
    """Heap of an executor."""
    executor_jvm_options: str = ""
    """More flags for the JVMs of executors, with spaces between them."""
    cluster_wait_s_max: float = 60.0
    """Longest wait for the master, and again for a first executor, at the start."""
    executors_lost_s_max: float = 60.0
    """Time without any executor after which calls fail and the engine ends."""

    # the contract `engine.Engine`, which knows no token
    compat: bool = False
    """Whether coordinators of the reference are served."""
    compat_listen: str = "127.0.0.1:5544"
    """Where they are, `host:port` (port 0: a free one) or `unix:path`."""
    compat_beyond_loopback: bool = False
    """Whether that may be an address which other machines reach: anyone who reaches it may use the engine."""
    compat_folder: str = "/opt/engine"
    """What paths of the contract call the exchange folder."""

    # calls
    message_bytes_max: int = 16 * MIB
    """Largest request or answer: a request names every slice of its history."""
    connections_max: int = 256
    """Connections at once through the forwarder of a sandbox."""
    calls_at_once_max: int = 4
    """Calls that run at once, each in its own fair-scheduled pool."""
    calls_waiting_max: int = 64
    """Calls that wait for a place; more are refused."""
    call_s_max: float = 4 * 3600.0
    """Longest call, whatever its deadline."""
    open_files: int = 8_192
    """Files that may be open at once, where the system lets the engine decide: an aggregate of many groups has 256, and every run of a
    state some."""
    grace_s: float = 5.0
    """How long a cancelled call may take to end before the process gives itself up."""
    frozen_s_max: float = 120.0
    """How long the interpreter may do nothing but one thing, so that no deadline is kept, before the process is ended; 0 for ever."""

    # rows
    collected_bytes_max: int = 128 * MIB
    """Estimated size of a result up to which it passes through memory; larger ones go through sorted scratch files. Spark
    ends a job whose result turns out to be twice as large."""
    compiled_bytes_min: int = 4 * MIB
    """Size of an ingest from which Spark compiles its plans; below, compiling takes longer than interpreting them."""
    planned_bytes_max: int = MIB
    """Size of rows up to which they are part of Spark's plan; more lie beside it. Planning looks at each row of a plan many times."""
    batch_rows: int = 65_536
    """Most rows of one Arrow batch."""
    batch_bytes: int = 32 * MIB
    """Size at which a batch of rows that are read is full, however few they are."""

    # input data
    line_bytes_max: int = 16 * MIB
    """Longest line of NDJSON, longest value of CSV and JSON, largest row of Parquet."""
    document_bytes_max: int = 128 * MIB
    """Largest JSON document that is not line by line."""
    depth_max: int = 100
    """Deepest nesting of JSON."""
    columns_max: int = 2_000
    """Most columns of an input."""
    column_name_bytes_max: int = 1_024
    """Longest name of a column of a new dataset, in UTF-8; the node's setting of the same name goes before."""
    column_names_bytes_max: int = MIB
    """Names of all columns of an input, and of members of structs, in UTF-8."""
    input_unpacked_bytes_max: int = 10 * GIB
    """Largest unpacked size of the Parquet files of one ingest: of their pages, and again of their rows. Also of a shapefile."""
    parquet_page_bytes_max: int = 128 * MIB
    """Largest page of a Parquet file, unpacked. Readers unpack a page as a whole."""
    parquet_pages_max: int = 2_000_000
    """Most pages of the Parquet files of one ingest."""
    parquet_footer_bytes_max: int = 32 * MIB
    """Largest footer of a Parquet file. Readers hold it in memory as a whole, and take several times its size for it."""
    parquet_decoded_bytes_max: int = GIB
    """Most that a reader may have to hold at once of a row group of a Parquet file: a page and a dictionary of each column, a row, and columns
    of lists as a whole."""
    parquet_unchecked_bytes_max: int = 384 * MIB
    """Largest column in one row group of a Parquet file whose pages carry no checksums, compressed: a second reader of such columns
    loads it as a whole. Columns whose pages all carry checksums may be larger."""
    parquet_checksums_required: bool = False
    """Whether Parquet files are refused whose pages carry no checksums: some damage shows by nothing else."""
    input_rows_max: int = 2_000_000_000
    """Most rows of one ingest."""
    infer_rows: int = 1_000
    """Rows that decide the types of an input without schema."""

    # SQL
    query_bytes_max: int = MIB
    """Longest text of one statement."""
    query_levels_max: int = 100
    """Deepest nesting of the text of one statement: brackets, types, CASE."""
    plan_nodes_max: int = 20_000
    """Most nodes of the plan of one statement."""

    # transforms
    transform_rows_in_memory_max: int = 1_500_000
    """New rows that are aggregated in memory at once; more are taken in pieces whose sums are added up, or by Spark."""
    groups_max: int = 250_000
    """Groups of an aggregate that are in hand at once, a kilobyte and a half each, fewer where each has more than eight values; more are taken by
    parts of their keys."""
    aggregate_by_spark: bool = False
    """Whether of more than that Spark's tasks make the sums, and look up, advance and compare the groups. On a cluster they always do:
    executors share the work, while one machine is faster piece by piece."""
    transform_output_bytes_max: int = 64 * GIB
    """Size of the rows that one transform may write, before they are compressed: rows that each make many fill no disk. Beyond it the
    transform fails."""
    taken_back_rows_max: int = 500_000
    """New rows of a transaction in which a row that fails is looked for among those which the same transaction withdraws."""
    migration_rows_max: int = 50_000_000
    """Most rows of a result that is compared with another one after a change of its query; each costs 24 bytes of memory."""
    transform_piece_rows: int = 250_000
    """Rows that a query without aggregates maps at once, on each core."""
    transform_piece_bytes: int = 128 * MIB
    """Size of the rows that a query maps, or reads to aggregate them, at once, however few they are."""

    # state of transforms
    stage_tasks_max: int = 256
    """Tasks of Spark among which the keys of a stage are divided; each takes its share piece by piece."""
    state_piece_rows: int = 250_000
    """Rows of state that are merged at once."""
    state_added_bytes_max: int = 256 * MIB
    """Rows that a transaction adds to a state stay in memory up to this size; more go to scratch files."""
    stage_rows_max: int = 2_000_000
    """New rows and touched keys of a stage up to which it is small; twice as many are computed at once, more one after the other."""
    stage_rows_each: int = 200_000
    """Rows of a stage that are worth a core: of more, as many parts are computed at once as there are cores for."""
    stages_by_spark: bool = False
    """Whether of more than that Spark's tasks look up old rows and make the difference, all parts at once. On a cluster they always do:
    executors share the work, while one machine is faster part by part."""
    stage_bytes_max: int = 128 * MIB
    """Size of the old and new rows of a stage that are computed at once; more are taken in parts."""
    bound_bytes_max: int = 512 * MIB
    """Largest size of rows that cannot be taken in parts, for they are of one key: beyond it the query is given up."""

    # provenance
    provenance_records_max: int = 1_000
    """Records that one call explains."""
    provenance_rows_max: int = 1_000_000
    """Rows of one input that an explanation runs the query over, where a request sets no limit. Records that show no key need all of them."""
    provenance_scanned_rows_max: int = 50_000_000
    """Records of one input in which those of a key are looked for without an index; each costs about 8 bytes of memory."""
    provenance_index_bytes_max: int = 2 * GIB
    """Indexes of keys in the exchange folder, 12 bytes for each record and key; the least recently used ones go first. 0: none are kept, and each
    question reads the keys of the whole history."""
    provenance_index_rows_min: int = 65_536
    """Records of consecutive slices from which an index of their keys is worth a file. Fewer are read for each question."""
    provenance_evaluations_max: int = 2_000
    """Sets of records over which the query runs to check the answers of one call, one for each started 5,000 records; what is not checked then says so."""

    @property
    def tasks_at_once(self) -> int:
        """Tasks of Spark that run at the same time, here or on executors."""
        return self.executors_max * self.executor_cores if self.spark_master else self.cores

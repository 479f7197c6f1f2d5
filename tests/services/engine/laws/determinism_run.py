"""Runs the table of requests once, in a Spark of its own configuration.

`python -m tests.services.engine.laws.determinism_run FOLDER CONFIGURATION`.

Prints a JSON object: the clocks of Python and of Spark (seconds since 1970), and name of a request to what each of its transactions
gave: the logical hash of the slice, the hash of the checkpoint's bytes, the watermark. `test_determinism` compares them.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.jvm.jvm_process import find_java, start_jvm
from odfabric_engine_spark.spark.session import SparkProcess, attach, request_session
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, Transaction, input_schema
from tests.support.another_day import java_on_another_day
from tests.support.engines.class_archive import archive_flags

REQUESTS = {
    "linear": "select event_time, k, v * 3 as v3, f / 7 as f7, v % 7 as rest from input where v > -900",
    "text in any language": (
        "select event_time, upper(k) as up, lower(k) as low, initcap(k) as cap, k like 'I%' as like_i,"
        " length(k) as len, concat(k, cast(f as string), cast(d as string)) as text from input"
    ),
    "times in any zone": (
        "select event_time, hour(event_time) as h, date_trunc('DAY', event_time) as day, cast(event_time as date) as date,"
        " cast(event_time as string) as text, date_format(event_time, 'EEEE d MMMM yyyy HH:mm') as written,"
        " to_timestamp(cast(event_time as string)) as again, timestamp '2024-03-31 02:30:00' as spring from input"
    ),
    "times without a day": (
        "select event_time, try_cast(concat(abs(v) % 24, ':30') as timestamp) as none, hour(concat(abs(v) % 24, ':30')) as hour,"
        " try_to_timestamp(concat('T', abs(v) % 24)) as neither, try_to_timestamp(concat(abs(v) % 24, ':30'), 'H:mm') as in_1970"
        " from input"
    ),
    "keyed sum of floats": "select max(event_time) as event_time, k, sum(f) as s, avg(f) as m, count(*) as n, min(f) as lo, max(f) as hi from input group by k",
    "keyed sum of decimals": "select max(event_time) as event_time, v % 50 as g, sum(d) as s, avg(d) as m, count(d) as n from input group by v % 50",
    "hours": (
        "select window.start as event_time, k, sum(f) as s, sum(v) as t, count(*) as n"
        " from input group by window(event_time, '1 hour'), k"
    ),
    "pairs of rows": "select l.event_time, l.k, l.v, r.d from input l left join input r on l.k = r.k and l.v = r.v + 1",
    "sliding hours": (
        "select window.end as event_time, sum(d) as s, max(k) as last_k"
        " from input group by window(event_time, '2 hours', '1 hour')"
    ),
    "sessions": (
        "select session_window.start as event_time, k, count(*) as n, sum(f) as s"
        " from input group by session_window(event_time, '10 minutes'), k"
    ),
    "three of each": (
        "select event_time, k, v, f from (select *, row_number() over (partition by k order by f desc) as place from input)"
        " where place <= 3"
    ),
    "moments and places": (
        "select max(event_time) as event_time, k, stddev(f) as s, corr(f, v) as c, percentile(f, 0.3) as p,"
        " count(distinct v) as n, sort_array(collect_set(v % 9)) as l, max_by(f, v) as m from input group by rollup(k)"
    ),
    "the one before": (
        "select i.event_time, i.k, i.v, e.v as before from input i left join lateral (select v, event_time from input j"
        " where j.k = i.k and j.event_time < i.event_time order by j.event_time desc limit 1) e"
    ),
    "greatest and not below": (
        "select event_time, k, v from input i where not exists (select 1 from input j where j.k = i.k and j.v > i.v)"
        " except select event_time, k, v from input where f < (select avg(f) from input)"
    ),
    "the version of that time": (
        "select i.event_time, i.k, i.v, w.f, w.since from input i left join lateral (select f, event_time as since from versions b"
        " where b.k = i.k and b.event_time <= i.event_time order by b.event_time desc limit 1) w on true"
    ),
    "lists, JSON and all of both": (
        "select coalesce(l.event_time, r.event_time) as event_time, l.k, l.x, r.k as other, r.j from"
        " (select event_time, k, v, explode(sequence(0, abs(v) % 4)) as x from input where v % 3 = 0) l full join"
        " (select event_time, k, v, to_json(named_struct('k', k, 'f', f, 'd', d)) as j, from_json(concat('[', v, ',', f, ']'), 'array<double>') as a"
        " from input where v % 5 = 0) r on l.k = r.k and l.v = r.v and l.x < size(r.a)"
    ),
    "pivoted": (
        "select * from (select max(event_time) over (partition by k) as event_time, k, v % 3 as rest, f from input)"
        " pivot (sum(f) for rest in (0 as none, 1 as one, 2 as two))"
    ),
}
"""Add a query here, and it is held to the law: the same request gives the same logical hash, checkpoint and watermark, whatever the
machine. The inputs are `input` and `versions`, which may be looked up as a temporal table."""
VERSIONS = "versions"

SCHEMA = input_schema(
    pa.field("k", pa.string()),
    pa.field("v", pa.int64()),
    pa.field("f", pa.float64()),
    pa.field("d", pa.decimal128(18, 4)),
)
KEYS = ("Istanbul", "istanbul", "Iğdır", "straße", "ÉCOLE", "ﬁsh", "", None, "Ünye", "I")
BLOCKS, ROWS = 4, 150


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What must make no difference."""

    cores: int = 1
    shuffle_partitions: int = 1
    adaptive: bool = False
    compiled: bool = True
    batch_rows: int = 65_536
    in_memory_rows: int = 500_000
    planned_bytes: int = 1 << 20
    by_spark: bool = False
    days: int = 0
    """How far ahead the clock is."""
    java: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Configuration:
        given = json.loads(text)
        return cls(**{**given, "java": tuple(given["java"])})


def blocks(*, seed: int) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """Rows and watermark of each block: order-sensitive float sums, some corrections."""
    chance, present = random.Random(6 + seed), []
    for number in range(BLOCKS):
        rows: list[tuple[Any, ...]] = []
        for _ in range(ROWS):
            time = (number - 2) * HOUR + chance.randrange(2 * HOUR)  # before 1970 too
            value = chance.choice((1e16, -1e16, 0.1, 1e-9, 3.7, -0.0)) * chance.random()
            amount = f"{chance.randrange(-(10**8), 10**8) / 10_000:.4f}"
            row = (time, chance.choice(KEYS), chance.randrange(-1000, 1000), value, amount)
            rows.append((A, *row))
            if present and chance.random() < 0.1:
                old = present.pop(chance.randrange(len(present)))
                rows += [(CF, *old), (CT, *old[:2], old[2] + 1, *old[3:])] if chance.random() < 0.5 else [(R, *old)]
            else:
                present.append(row)
        yield rows, number * HOUR - 2 * HOUR


def started(configuration: Configuration, folder: Path) -> tuple[SparkProcess, EngineCall]:
    settings = EngineSettings(
        exchange=folder,
        memory_mib=1024,
        cores=configuration.cores,
        shuffle_partitions=configuration.shuffle_partitions,
        batch_rows=configuration.batch_rows,
        planned_bytes_max=configuration.planned_bytes,
        transform_rows_in_memory_max=configuration.in_memory_rows,
        aggregate_by_spark=configuration.by_spark,
        transform_piece_rows=configuration.in_memory_rows,
        stage_rows_max=configuration.in_memory_rows,
        stage_rows_each=max(configuration.in_memory_rows // 4, 1),
        groups_max=max(configuration.in_memory_rows // 4, 1),
        stages_by_spark=configuration.by_spark,
        state_piece_rows=10 * configuration.in_memory_rows,
    )
    options = [*archive_flags(), *configuration.java]
    java = find_java(os.environ)
    if configuration.days:
        java = java_on_another_day(java, folder / "java", configuration.days)
    jvm = start_jvm(java, memory_mib=1024, options=options, wait_s_max=120)
    spark = attach(jvm, settings)
    session = request_session(spark.session)
    session.conf.set("spark.sql.adaptive.enabled", str(configuration.adaptive).lower())
    session.conf.set("spark.sql.codegen.wholeStage", str(configuration.compiled).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if configuration.compiled else "NO_CODEGEN")
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    return spark, EngineCall(session=session, exchange=ExchangeFolder.at(folder), settings=settings, scratch=scratch)


def inputs_of(query: str, folder: Path) -> tuple[list[Input], list[TemporalTable]]:
    """A request's inputs with all blocks, and those looked up as temporal tables."""
    inputs = [Input(folder, "input", SCHEMA)]
    if VERSIONS in query:
        inputs.append(Input(folder, VERSIONS, SCHEMA, number=2))
    for one in inputs:
        for rows, watermark in blocks(seed=one.number):
            one.add(decimals(rows), watermark=watermark)
    return inputs, [TemporalTable(name=VERSIONS, primary_key=("k",))] if VERSIONS in query else []


def hashes(call: EngineCall, folder: Path, names: Sequence[str]) -> dict[str, list[list[str]]]:
    """What each request of these names gave: two transactions of two blocks each."""
    found = {}
    for number, name in enumerate(names):
        query = REQUESTS[name]
        own = folder / f"{number}"
        own.mkdir()
        inputs, tables = inputs_of(query, own)
        derivative = Derivative(query, inputs, replace(call, exchange=ExchangeFolder.at(own)), temporal_tables=tables)
        transactions = [derivative.pull([upto] * len(inputs)) for upto in (BLOCKS // 2, BLOCKS)]
        assert all(transaction.table.num_rows for transaction in transactions), f"{name} tells nothing"
        found[name] = [_hashes_of(transaction) for transaction in transactions]
    return found


def _hashes_of(transaction: Transaction) -> list[str]:
    checkpoint = str(physical_hash(transaction.checkpoint_path)[0])
    return [
        str(logical_hash_of_parquet(transaction.slice_path).multihash),
        checkpoint,
        str(transaction.result.watermark),
    ]


def decimals(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    amounts = pa.array([row[-1] for row in rows]).cast(pa.decimal128(18, 4)).to_pylist()
    return [(*row[:-1], amount) for row, amount in zip(rows, amounts, strict=True)]


def main() -> None:
    folder, configuration = Path(sys.argv[1]), Configuration.from_json(sys.argv[2])
    spark, call = started(configuration, folder)
    clocks = [time.time(), call.session.sql("select double(current_timestamp())").collect()[0][0]]
    found = hashes(call, folder, json.loads(sys.argv[3]))
    spark.stop()
    print(json.dumps({"clocks": clocks, "hashes": found}))


if __name__ == "__main__":
    main()

"""Engine start, sandboxed or not, and a small transform once it is warm.

    PYTHONPATH=.:src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_engine_start.py [--starts 5] [--calls 60]

Starts: from the start of the process to its ready file, with and without the archive of classes. Calls: a linear transform of 64 new
rows through gRPC, alone and four at once, against the bare Spark job (read, project, collect) in a warm session of this process.
Abuse: the same call before and after each call of `tests/services/engine/serve/test_limits.py` that asks for too much (the first call after
it, and the median of the others); last one that takes all memory, which ends the engine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from odfabric.adapters.grpc_engine.engine import GrpcEngine
from odfabric.errors import OdfError
from odfabric.model.engine import TransformRequest
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.jvm.class_archive import start_making_if_missing
from odfabric_engine_spark.spark.session import request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.serve.test_limits import ABUSE, ask
from tests.services.engine.transforming import A, Derivative, Input, input_schema

ROWS = 64
AT_ONCE = 4
QUERY = "select event_time, k, v * 2 as v2 from input where v >= 0"
SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
ENDED_BY_MEMORY = "SELECT count(DISTINCT x) AS n FROM (SELECT explode(sequence(1, 200000000 + id)) AS x FROM range(1))"
"""It takes the process with it: anyone who owns the engine starts another."""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--starts", type=int, default=5)
    arguments.add_argument("--calls", type=int, default=60)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cache.mkdir()
        making = start_making_if_missing(cache)
        if making is not None:
            making.wait()
        measure_starts(Path(folder), cache, given.starts)
        measure_calls(Path(folder), cache, given.calls)


def measure_starts(folder: Path, cache: Path, starts: int) -> None:
    for sandbox in ("unsealed", "sealed"):
        for name, options in (("no archive", ()), ("archive", ("--cache", str(cache)))):
            times = []
            for number in range(starts):
                began = time.perf_counter()
                own = folder / f"{sandbox}-{name}-{number}".replace(" ", "-")
                engine = EngineUnderTest(own, options=("--sandbox", sandbox, *options), jvm_options="")
                times.append(time.perf_counter() - began)
                engine.stop()
            show(f"start, {sandbox}, {name}", times)


def measure_calls(folder: Path, cache: Path, calls: int) -> None:
    for sandbox in ("unsealed", "sealed"):
        options = ("--sandbox", sandbox, "--cache", str(cache))
        engine = EngineUnderTest(folder / f"calls-{sandbox}", options=options, jvm_options="")
        request = transform(engine.exchange)
        with engine.client() as client:
            one = transforms(client, request)
            timed(one, 20)
            before = timed(one, calls)
            show(f"transform of {ROWS} rows, {sandbox}", before)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                show(f"  {AT_ONCE} at once", list(pool.map(timer(one), range(calls))))
            for name, (sql, _) in ABUSE.items():
                abuse(client, sql)
                first, *after = timed(one, calls)
                show(f"  after {name}", after)
                usual = statistics.median(before)
                print(
                    f"  against before: first call {first / usual:.2f}, median {statistics.median(after) / usual:.2f}"
                )
            abuse(client, ENDED_BY_MEMORY)
        engine.stop()
    bare(folder, calls)


def transforms(client: GrpcEngine, request: TransformRequest) -> Callable[[int], object]:
    """One call by its number."""
    return lambda number: client.execute_transform(numbered(request, number), progress=lambda _: None)


def timer(call: Callable[[int], object]) -> Callable[[int], float]:
    """The seconds that a call takes."""
    return lambda number: timed(call, 1, number)[0]


def transform(exchange: Path) -> TransformRequest:
    """A request for the new rows of the second block, after one transaction."""
    one = Input(exchange, "input", SCHEMA)
    rows = [(A, number, f"k{number % 7}", number) for number in range(ROWS)]
    one.add(rows)
    settings = EngineSettings(exchange=exchange)
    # Only its request is wanted: the transaction itself runs in the engine.
    call = EngineCall(session=None, exchange=ExchangeFolder.at(exchange), settings=settings, scratch=exchange)  # type: ignore[arg-type]
    return Derivative(QUERY, [one], call).request()


def numbered(request: TransformRequest, number: int) -> TransformRequest:
    """Outputs of its own: calls run at once."""
    return replace(request, new_data_path=f"data-{number}", new_checkpoint_path=f"checkpoint-{number}")


def abuse(client: GrpcEngine, sql: str) -> None:
    try:
        client.query(replace(ask(sql), wall_ms_max=3_000), progress=lambda _: None)
    except OdfError as error:
        print(f"  ended: {str(error)[:100]}")


def bare(folder: Path, calls: int) -> None:
    """The least that Spark itself needs."""
    exchange = folder / "bare"
    exchange.mkdir()
    transform(exchange)
    spark = start_spark(EngineSettings(exchange=exchange, memory_mib=1024))
    session = request_session(spark.session)
    session.read.parquet(str(exchange / "input-0")).createOrReplaceTempView("input")

    def job(number: int) -> object:
        return session.sql(QUERY).toArrow()

    timed(job, 20)
    show(f"bare Spark job of {ROWS} rows", timed(job, calls))
    spark.stop()


def timed(call: Callable[[int], object], times: int, first: int = 0) -> list[float]:
    found = []
    for number in range(times):
        began = time.perf_counter()
        call(first + number)
        found.append(time.perf_counter() - began)
    return found


def show(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    worst = ordered[int(len(ordered) * 0.95)] if len(ordered) > 1 else ordered[0]
    print(f"{name:45} p50 {statistics.median(times) * 1000:7.0f} ms   p95 {worst * 1000:7.0f} ms", flush=True)


if __name__ == "__main__":
    main()

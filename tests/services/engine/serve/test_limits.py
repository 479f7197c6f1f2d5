"""Excessive work ends at a named limit and leaves the engine as it was."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidQuery, LimitExceeded, OdfError
from odfabric.model.engine import QueryInput, QueryRequest, QueryResult, ValidateRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.validate_query import judge_query
from odfabric_engine_spark.process.server import EXIT_JVM_DIED, EXIT_STUCK
from odfabric_engine_spark.serve.operations import run_query
from odfabric_engine_spark.serve.running_calls import CallRunner, Finished
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.cluster.leftover_tasks import has_leftover_tasks
from odfabric_engine_spark.spark.session import SparkProcess
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.transforming import A, Input, Requests, input_schema, written
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.alone]

BY_TIME = "query_wall_s_max"
OF_THE_CALL = "engine_call_s_max"
OF_THE_OUTPUT = "transform_output_bytes_max"
TOO_COMPLEX = "too complex"
"""Whether the parser or a walk over the plan gives up first depends on the stack that is left: two rules, one meaning."""
ABUSE = {
    "a join without end": (
        # Its task looks whether it shall stop once per 1,000 rows of the first side.
        "SELECT count(*) AS n FROM range(1000000000) a CROSS JOIN range(20000) b",
        BY_TIME,
    ),
    "a count without end": ("SELECT count(*) AS n FROM range(1000000000000000) WHERE id % 7 = 3", BY_TIME),
    "rows without end": ("SELECT id, id AS a, id AS b FROM range(10000000000)", "query_bytes_max"),
    "a long list": ("SELECT 1 AS a WHERE 1 IN (" + ",".join(map(str, range(25_000))) + ")", "plan_nodes_max"),
    "10,000 columns": ("SELECT " + ",".join(f"{number} AS c{number}" for number in range(10_000)), "plan_nodes_max"),
    "a long text": (f"SELECT '{'x' * (1 << 20)}' AS a", "query_bytes_max"),
    "a large constant": ("SELECT size(sequence(1, 2000000000)) AS n", "constant-size"),
    "a large constant of large ones": ("SELECT repeat(repeat('x', 100000), 100000) AS a", "constant-size"),
    "a wide number": ("SELECT format_string('%2147483647d', 1) AS a", "constant-size"),
    "a constant that is cast": ("SELECT CAST(repeat('x', 300000000) AS DATE) AS a", "special-time"),
    "many partitions": ("SELECT count(*) AS n FROM range(0, 1000, 1, 1000000000)", "operator"),
    "many relations in a row": (
        "WITH c0 AS (SELECT 1 AS a)"
        + "".join(f", c{n} AS (SELECT a + 1 AS a FROM c{n - 1})" for n in range(1, 130))
        + " SELECT * FROM c129",
        TOO_COMPLEX,
    ),
    "a long sum": ("SELECT " + "+".join(["1"] * 20_000) + " AS n", TOO_COMPLEX),
}
"""SQL and the limit, or rule, that its error must name."""

WALL_S = 2.0
PATIENCE_S = 60.0
"""For what must end by another limit, however busy the machine."""


def ask(sql: str) -> QueryRequest:
    return QueryRequest(
        sql=sql, inputs=(), skip=0, limit=100_000, bytes_max=1 << 16, wall_ms_max=60_000, output_path="answer"
    )


@dataclass
class State:
    """What calls may leave in the engine."""

    heap_mib: float
    kept: int
    files: int


@dataclass
class Bench:
    """A runner on the Spark of the tests."""

    spark: SparkProcess
    runner: CallRunner
    given_up: list[str]
    """One entry each time that the runner gave its process up."""

    def run(self, sql: str, wall_s: float = PATIENCE_S) -> Finished[QueryResult]:
        """The end of one query."""
        *_, last = self.runner.run(
            lambda call: run_query(ask(sql), call),
            output="answer",
            wall_s_max=wall_s,
            limit=lambda: LimitExceeded("too long", limit=BY_TIME, maximum=wall_s),
            caller_waits=lambda: True,
        )
        assert isinstance(last, Finished)
        return last

    def state(self) -> State:
        context, java = self.spark.session.sparkContext, self.spark.session._jvm
        assert java is not None
        wait_until(lambda: not has_leftover_tasks(context, "none"), what="the end of all tasks")
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        return State(
            heap_mib=(runtime.totalMemory() - runtime.freeMemory()) / (1 << 20),
            kept=int(context._jsc.getPersistentRDDs().size()),
            files=sum(1 for path in self.spark.jvm.scratch.rglob("*.data")),
        )


@pytest.fixture
def bench(spark: SparkProcess, tmp_path: Path) -> Bench:
    given_up: list[str] = []
    settings = EngineSettings(exchange=tmp_path, grace_s=20, calls_at_once_max=2)
    runner = CallRunner(
        spark.session,
        settings=settings,
        exchange=ExchangeFolder.at(tmp_path),
        give_up=lambda: given_up.append("gave up"),
        out_of_memory=lambda: False,
    )
    return Bench(spark, runner, given_up)


def told(error: OdfError | None) -> str | None:
    if isinstance(error, LimitExceeded):
        return error.limit
    rule = error.place.rule if error is not None else None
    return TOO_COMPLEX if rule in ("too-deep", "failed-to-parse-too-complex") else rule


def test_every_limit_is_told_and_nothing_is_left(bench: Bench, tmp_path: Path) -> None:
    def round_of_abuse() -> State:
        for name, (sql, expected) in ABUSE.items():
            ended = bench.run(sql, WALL_S if expected == BY_TIME else PATIENCE_S)
            assert ended.bug is None, name
            assert isinstance(ended.error, LimitExceeded | InvalidQuery), (name, ended)
            assert told(ended.error) == expected, (name, ended.error)
        assert bench.run("SELECT 1 AS one").result is not None
        return bench.state()

    first = round_of_abuse()
    second = round_of_abuse()
    # Spark's listeners let go of what they heard some time after the queries have ended.
    wait_until(lambda: bench.state().heap_mib <= first.heap_mib + 64, what="the heap that the first round left")
    assert bench.given_up == []
    assert second.kept == 0
    assert second.files <= 4, "Spark removes files of shuffles some time after it has collected garbage"
    assert [path.name for path in tmp_path.iterdir() if path.name != "answer"] == []


HUNGRY = "SELECT size(sequence(1, 400000000 + id)) AS n FROM range(1)"


def test_memory_is_a_limit_too(tmp_path: Path) -> None:
    # With the collector that users get: another one reports later that memory runs out.
    engine = EngineUnderTest(tmp_path, options=("--memory-mib", "512"), jvm_options="")
    with engine.client() as client:
        with pytest.raises(LimitExceeded) as caught:
            client.query(ask(HUNGRY), progress=lambda _: None)
        assert (caught.value.limit, caught.value.maximum) == ("memory_mib", 512)
    assert engine.process.wait(30) == EXIT_JVM_DIED, "the supervisor starts a healthy one"


@dataclass(frozen=True)
class Abuse:
    """A query over two rows, its limit, and whether tasks look if they shall stop."""

    query: str
    limit: str
    looks: bool = True


ABUSIVE_TRANSFORMS = {
    "a join without end": Abuse(
        "SELECT max(a.event_time) AS event_time, count(*) AS n"
        " FROM a CROSS JOIN range(1000000000) b CROSS JOIN range(20000) c",
        OF_THE_CALL,
    ),
    "more rows than may be written": Abuse("SELECT event_time, explode(sequence(1, v)) AS x FROM a", OF_THE_OUTPUT),
    "rows without end of one row": Abuse(
        "SELECT event_time, x, explode(sequence(1, v)) AS y"
        " FROM (SELECT event_time, v, explode(sequence(1, v)) AS x FROM a)",
        OF_THE_CALL,
        looks=False,
    ),
    "a regular expression that backtracks": Abuse(
        r"SELECT event_time, concat(repeat('a', 64), k) rlike r'^(a|aa)+\1$' AS never FROM a", OF_THE_CALL, looks=False
    ),
}
ROWS_OF_TRANSFORMS = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
CALL_S = 4.0
GRACE_S = 1.0


@pytest.mark.parametrize("abuse", ABUSIVE_TRANSFORMS.values(), ids=ABUSIVE_TRANSFORMS)
def test_the_transform_after_abuse_is_as_before(tmp_path: Path, abuse: Abuse) -> None:
    options = ("--grace-s", str(GRACE_S), "--transform-output-bytes-max", str(1 << 20))
    engine = EngineUnderTest(tmp_path, options=options)
    one = Input(engine.exchange, "a", ROWS_OF_TRANSFORMS).add([(A, 0, "!", 100_000), (A, 1, "!", 100_000)], watermark=0)

    def transform(query: str, name: str, call_s: float) -> list[tuple[Any, ...]]:
        request = Requests(query, [one], name=name).request()
        with engine.client(call_s_max=call_s) as client:
            return written(request, client.execute_transform(request, progress=lambda _: None), engine.exchange).records

    def small(name: str) -> list[tuple[Any, ...]]:
        return transform("SELECT max(event_time) AS event_time, k, sum(v) AS s FROM a GROUP BY k", name, PATIENCE_S)

    before = small("before")
    assert [row[2:] for row in before] == [("!", 200_000)]
    began = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        transform(abuse.query, "abuse", CALL_S if abuse.limit == OF_THE_CALL else PATIENCE_S)
    assert caught.value.limit == abuse.limit
    assert time.monotonic() - began < PATIENCE_S
    if abuse.looks:
        wait_until(engine.is_calm, deadline_s=PATIENCE_S, what="the end of the work")
        assert not [path.name for path in engine.exchange.iterdir() if path.name.startswith((".scratch", "abuse"))]
    else:
        assert engine.process.wait(PATIENCE_S) == EXIT_STUCK
        engine = EngineUnderTest(tmp_path, options=options)  # as the supervisor does
    assert small("after") == before
    assert engine.stop() == 0


def test_the_answer_of_a_call_that_does_not_end_leaves_at_once(spark: SparkProcess, tmp_path: Path) -> None:
    given_up: list[str] = []
    runner = CallRunner(
        spark.session,
        settings=EngineSettings(exchange=tmp_path, grace_s=0.3, calls_at_once_max=1),
        exchange=ExchangeFolder.at(tmp_path),
        give_up=lambda: given_up.append("gave up"),
        out_of_memory=lambda: False,
    )
    freed = threading.Event()
    told = runner.run(
        lambda call: freed.wait(PATIENCE_S),
        output=None,
        wall_s_max=0.1,
        limit=lambda: LimitExceeded("too long", limit=BY_TIME, maximum=0.1),
        caller_waits=lambda: True,
    )
    last = next(each for each in told if isinstance(each, Finished))
    assert isinstance(last.error, LimitExceeded)
    told.close()  # type: ignore[attr-defined]
    assert given_up == ["gave up"], "who closes it at its last word does not make it wait again"
    freed.set()
    wait_until(lambda: runner.idle_s > 0, what="the end of the call")
    runner.close()


def test_patience_ends_though_the_jvm_hangs(
    spark: SparkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up, freed = threading.Event(), threading.Event()
    monkeypatch.setattr(spark.session.sparkContext, "cancelJobGroup", lambda group: freed.wait(PATIENCE_S))
    runner = CallRunner(
        spark.session,
        settings=EngineSettings(exchange=tmp_path, grace_s=0.3, calls_at_once_max=1),
        exchange=ExchangeFolder.at(tmp_path),
        give_up=given_up.set,
        out_of_memory=lambda: False,
    )
    told = runner.run(
        lambda call: freed.wait(PATIENCE_S),
        output=None,
        wall_s_max=0.1,
        limit=lambda: LimitExceeded("too long", limit=BY_TIME, maximum=0.1),
        caller_waits=lambda: True,
    )
    begun = time.monotonic()
    last = next(each for each in told if isinstance(each, Finished))
    assert time.monotonic() - begun < PATIENCE_S / 2
    assert isinstance(last.error, LimitExceeded)
    assert given_up.is_set()
    freed.set()
    wait_until(lambda: runner.idle_s > 0, what="the end of the call")
    runner.close()


def test_judging_that_asks_the_jvm_again_and_again_ends_at_its_limit(spark: SparkProcess, tmp_path: Path) -> None:
    given_up: list[str] = []
    runner = CallRunner(
        spark.session,
        settings=EngineSettings(exchange=tmp_path, grace_s=10, calls_at_once_max=1),
        exchange=ExchangeFolder.at(tmp_path),
        give_up=lambda: given_up.append("gave up"),
        out_of_memory=lambda: False,
    )
    columns = "event_time TIMESTAMP, v BIGINT"
    branches = " UNION ALL ".join(f"SELECT event_time, v + {number} AS v FROM a" for number in range(400))
    request = ValidateRequest(
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=branches),)),
        inputs=(QueryInput(alias="a", vocabulary=DatasetVocabulary(), data_schema=None, ddl=columns),),
    )
    *_, last = runner.run(
        lambda call: judge_query(request, call),
        output=None,
        wall_s_max=3,
        limit=lambda: LimitExceeded("too long", limit=BY_TIME, maximum=3),
        caller_waits=lambda: True,
    )
    assert isinstance(last, Finished)
    assert isinstance(last.error, LimitExceeded)
    assert given_up == []
    runner.close()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), InvalidQuery("wrong"), ValueError("a bug")])
def test_a_call_that_failed_holds_no_files(bench: Bench, tmp_path: Path, error: Exception) -> None:
    def lines() -> Iterator[str]:
        with (tmp_path / "pushed").open("w+") as stream:
            yield stream.name
            yield stream.name

    def work(call: EngineCall) -> None:
        rows = lines()
        for _ in rows:
            written = pa.OSFile(str(call.scratch / "staged"), "wb")
            try:
                raise error
            except Exception as caught:
                raise RuntimeError(written.closed) from caught

    gc.disable()
    try:
        *_, last = bench.runner.run(
            work,
            output="answer",
            wall_s_max=PATIENCE_S,
            limit=lambda: LimitExceeded("too long", limit=BY_TIME, maximum=PATIENCE_S),
            caller_waits=lambda: True,
        )
        assert isinstance(last, Finished)
        held = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists() or each.is_symlink()]
        assert [each for each in held if str(tmp_path) in each] == []
    finally:
        gc.enable()

"""The engine process: callers, effects of a call, ends of work, calls, process."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from odfabric.adapters.grpc_engine.engine import GrpcEngine
from odfabric.errors import (
    Determinate,
    InvalidData,
    InvalidQuery,
    InvalidRequest,
    LimitExceeded,
    OdfError,
    Unauthenticated,
)
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import EngineProgress, IngestRequest, QueryInput, QueryRequest, ValidateRequest
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import MergeStrategyAppend, MergeStrategyLedger, ReadStepCsv
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.process.server import EXIT_STUCK
from odfabric_engine_spark.serve import servicer
from odfabric_engine_spark.serve.crash_points import CRASH_POINTS
from tests.services.engine.engine_process import EngineUnderTest, gone
from tests.services.engine.ingest.reading import ddl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

CONTENT = b"city,population\n" + b"".join(b"city %d,%d\n" % (number % 977, number) for number in range(20_000))


ENDLESS = "SELECT count(*) AS n FROM range(1000000000000000) WHERE id % 7 = 3"
"""Work whose tasks look whether they shall stop."""

STUBBORN = {
    "a regular expression that backtracks": r"SELECT rlike(concat(repeat('a', 64), '!'), r'^(a|aa)+\1$') AS never",
    "a join without keys": (
        "SELECT count(*) AS n FROM (SELECT explode(sequence(1, 100000)) AS x) a,"
        " (SELECT explode(sequence(1, 100000)) AS y) b, (SELECT explode(sequence(1, 100000)) AS z) c"
        " WHERE (x * y + z) % 7 = 3"
    ),
}
"""Work whose tasks never look."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    process = EngineUnderTest(tmp_path_factory.mktemp("engine"))
    yield process
    assert process.stop() == 0, process.log.read_text()[-2000:]


@pytest.fixture
def client(engine: EngineUnderTest) -> Iterator[GrpcEngine]:
    with engine.client() as found:
        yield found


def ignore(progress: EngineProgress) -> None:
    pass


def ingest_request(engine: EngineUnderTest, name: str, content: bytes = CONTENT, **changes: Any) -> IngestRequest:
    (engine.exchange / name).mkdir(exist_ok=True)
    (engine.exchange / name / "in").write_bytes(content)
    request = IngestRequest(
        vocabulary=DatasetVocabulary(),
        data_paths=(f"{name}/in",),
        file_names=("cities.csv",),
        read=ReadStepCsv(header=True, infer_schema=True),
        preprocess=None,
        merge=MergeStrategyAppend(),
        data_schema=None,
        history=(),
        system_time=Instant.parse("2050-01-01T12:00:00Z"),
        event_time_fallback=Instant.parse("2050-01-01T00:00:00Z"),
        next_offset=0,
        new_data_path=f"{name}/out",
    )
    return replace(request, **changes)


def query(sql: str, **changes: Any) -> QueryRequest:
    request = QueryRequest(
        sql=sql, inputs=(), skip=0, limit=10, bytes_max=1 << 20, wall_ms_max=60_000, output_path="answer"
    )
    return replace(request, **changes)


def test_it_says_who_it_is(client: GrpcEngine) -> None:
    info = client.info()
    assert (info.name, info.spark_version) == ("odfabric-spark", "4.3.0")
    assert len(info.digest) == 64


def test_only_who_knows_the_token_is_served(engine: EngineUnderTest) -> None:
    with engine.client(token="another") as stranger, pytest.raises(Unauthenticated):
        stranger.info()
    with grpc.insecure_channel(engine.address) as channel:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        for call in (
            lambda: stub.GetInfo(pb.GetInfoRequest(), timeout=20),
            lambda: list(stub.Ingest(pb.IngestRequest(), timeout=20)),
            lambda: stub.ValidateQuery(pb.ValidateQueryRequest(), timeout=20, metadata=(("authorization", "Bearer"),)),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_an_ingest_comes_back_with_progress(engine: EngineUnderTest, client: GrpcEngine) -> None:
    stages: list[str] = []
    result = client.ingest(ingest_request(engine, "plain"), progress=lambda progress: stages.append(progress.stage))
    assert result.offsets is not None
    assert len(result.offsets) == 20_000
    assert result.data_schema is not None
    assert [field.name for field in result.data_schema.fields][-2:] == ["city", "population"]
    assert {"read", "write"} <= set(stages)
    assert sorted(os.listdir(engine.exchange / "plain")) == ["in", "out"]


def test_errors_travel_with_their_place(engine: EngineUnderTest, client: GrpcEngine) -> None:
    with pytest.raises(InvalidData) as caught:
        client.ingest(ingest_request(engine, "bad", b"a,b\n1,2\n1\n"), progress=ignore)
    place = caught.value.place
    assert (place.file, place.line, place.column) == ("cities.csv", 3, 1)
    with pytest.raises(InvalidQuery) as refused:
        client.query(query("SELECT uuid()"), progress=ignore)
    assert refused.value.place.rule is not None
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query="SELECT 1 +"),))
    judged = client.validate_query(ValidateRequest(vocabulary=DatasetVocabulary(), transform=transform, inputs=()))
    assert judged.problems


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "link/in", "", ".", "a//b", "a\\b"])
def test_no_path_leads_out_of_the_exchange_folder(engine: EngineUnderTest, client: GrpcEngine, path: str) -> None:
    (engine.folder / "secret").write_text("city,population\n")
    link = engine.exchange / "link"
    if not link.is_symlink():
        link.symlink_to(engine.folder)
    request = ingest_request(engine, "escape")
    with pytest.raises(InvalidRequest):
        client.ingest(replace(request, data_paths=(path,)), progress=ignore)
    with pytest.raises(InvalidRequest):
        client.ingest(replace(request, new_data_path=path or "../out"), progress=ignore)
    assert not (engine.folder / "out").exists()


def test_a_deadline_frees_the_work(engine: EngineUnderTest, client: GrpcEngine) -> None:
    schema = ddl("v BIGINT NOT NULL")
    numbers = QueryInput(alias="n", vocabulary=DatasetVocabulary(), data_schema=schema)
    with pytest.raises(LimitExceeded) as caught:
        client.query(query(ENDLESS, inputs=(numbers,), wall_ms_max=2_000), progress=ignore)
    assert caught.value.limit == "query_wall_s_max"
    wait_until(engine.is_calm, deadline_s=90, what="an idle engine")
    assert client.query(query("SELECT 1 AS one"), progress=ignore).rows == 1


def test_a_caller_that_goes_away_frees_the_work(engine: EngineUnderTest) -> None:
    impatient = engine.client()
    outcome: list[OdfError] = []

    def ask() -> None:
        try:
            impatient.query(query(ENDLESS, output_path="gone"), progress=ignore)
        except OdfError as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: not engine.is_calm(), what="a busy engine")
    impatient.close()
    thread.join(30)
    assert isinstance(outcome[0], Determinate)
    wait_until(engine.is_calm, deadline_s=90, what="an idle engine")


def test_a_caller_may_end_what_tells_nothing_by_itself(engine: EngineUnderTest, client: GrpcEngine) -> None:
    told: list[EngineProgress] = []

    def leave(progress: EngineProgress) -> None:
        told.append(progress)
        if len(told) > 3:  # more than an endless query has to tell
            raise Determinate("whoever asked has left")

    with pytest.raises(Determinate, match="whoever asked has left"):
        client.query(query(ENDLESS, output_path="left"), progress=leave)
    wait_until(engine.is_calm, deadline_s=90, what="an idle engine")


def test_calls_at_once_do_not_see_each_other(engine: EngineUnderTest, client: GrpcEngine) -> None:
    merge = MergeStrategyLedger(primary_key=("city",))
    whole = CONTENT[: CONTENT.index(b"city 976,976\n") + 13]
    with ThreadPoolExecutor(6) as pool:
        requests = [ingest_request(engine, f"together-{number}", whole, merge=merge) for number in range(6)]
        results = list(pool.map(lambda request: client.ingest(request, progress=ignore), requests))
    assert {len(result.offsets) for result in results if result.offsets} == {977}
    hashes = {logical_hash_of_parquet(engine.exchange / request.new_data_path) for request in requests}
    assert len(hashes) == 1


@pytest.mark.parametrize("stuck", STUBBORN.values(), ids=STUBBORN)
def test_a_call_that_cannot_be_ended_makes_the_engine_give_itself_up(tmp_path: Path, stuck: str) -> None:
    engine = EngineUnderTest(tmp_path, options=("--grace-s", "1"))
    pids = engine.inner_pids
    with engine.client() as client:
        client.query(
            query("SELECT count(*) AS n FROM range(10) GROUP BY id % 3"), progress=ignore
        )  # warm: it starts at once
        with pytest.raises(LimitExceeded):
            client.query(query(stuck, wall_ms_max=5_000), progress=ignore)
    assert engine.process.wait(20) == EXIT_STUCK
    wait_until(lambda: all(gone(pid) for pid in pids), what="the end of all that it started")


FREEZES = """
import ctypes, signal
signal.signal(signal.SIGUSR1, lambda *_: ctypes.PyDLL(None).sleep(60))
"""
"""Something in C that does not let go of the interpreter."""


def test_an_engine_whose_interpreter_stands_still_ends(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FREEZES)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    options = ("--sandbox", "unsealed", "--frozen-s-max", "3")
    engine = EngineUnderTest(tmp_path / "engine", options=options, environment={"PYTHONPATH": path})
    pids = engine.inner_pids
    with engine.client() as client:
        client.info()
        engine.process.send_signal(signal.SIGUSR1)
        assert engine.process.wait(30) == 1
    assert "Timeout" in engine.log.read_text()
    wait_until(lambda: all(gone(pid) for pid in pids), what="the end of all that it started")


def test_killed_in_the_middle_the_same_request_gives_the_same_slice(tmp_path: Path, engine: EngineUnderTest) -> None:
    victim = EngineUnderTest(tmp_path)
    pids = victim.inner_pids
    request = ingest_request(victim, "slice", CONTENT, merge=MergeStrategyLedger(primary_key=("city", "population")))
    with victim.client() as client, pytest.raises(Determinate):
        client.ingest(request, progress=lambda progress: victim.process.kill())
    victim.process.wait(20)
    wait_until(lambda: all(gone(pid) for pid in pids), what="the end of all that it started")
    survivor = EngineUnderTest(tmp_path)
    with survivor.client() as client:
        client.ingest(request, progress=ignore)
    assert survivor.stop() == 0
    undisturbed = ingest_request(engine, "undisturbed", CONTENT, merge=request.merge)
    with engine.client() as client:
        client.ingest(undisturbed, progress=ignore)
    assert logical_hash_of_parquet(victim.exchange / "slice/out") == logical_hash_of_parquet(
        engine.exchange / "undisturbed/out"
    )


def test_crash_point_of_an_ingest(tmp_path: Path) -> None:
    assert CRASH_POINTS[0] == "engine-process.ingest:before-result"
    victim = EngineUnderTest(tmp_path, environment={"ODF_CRASH_AT": CRASH_POINTS[0]})
    request = ingest_request(victim, "slice")
    with victim.client() as client, pytest.raises(Determinate):
        client.ingest(request, progress=ignore)
    assert victim.process.wait(20) == -9
    assert (victim.exchange / "slice/out").exists()


def test_it_ends_when_idle_and_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        owned = EngineUnderTest(tmp_path / "owned", options=("--owner-pid", str(owner.pid)))
        owner.kill()
    assert owned.process.wait(30) == 0
    idle = EngineUnderTest(tmp_path / "idle", options=("--idle-s", "1"))
    assert idle.process.wait(30) == 0


def test_a_broken_token_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")
    command = [sys.executable, "-P", "-m", "odfabric_engine_spark", "--exchange", str(tmp_path), "--token-file"]
    ended = subprocess.run([*command, str(tmp_path / "token")], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (2, "the token file is empty\n")


class _FullDisk(io.StringIO):
    """A log that nothing can be written to."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", _FullDisk())
        servicer.report(ValueError("a bug"))

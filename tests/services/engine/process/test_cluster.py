"""An engine on a real standalone cluster: same rows; definite ends on any loss."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.adapters.grpc_engine.engine import GrpcEngine
from odfabric.errors import Determinate, InvalidData, LimitExceeded
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.model.engine import EngineProgress, QueryRequest
from odfabric.model.source import MergeStrategyLedger, ReadStepCsv
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.process.server import EXIT_NO_EXECUTORS
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.reading import ddl
from tests.services.engine.laws.determinism_run import BLOCKS, REQUESTS, inputs_of
from tests.services.engine.transforming import Derivative, Transaction
from tests.support.engines.class_archive import archive_flags
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.process_tree import descendants
from tests.support.servers.spark_cluster import SparkCluster, spark_cluster
from tests.support.turns import todays
from tests.support.waiting import free_port, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.alone]

CHOSEN = [*REQUESTS] if "ODF_LAW_CASES" in os.environ else todays([*REQUESTS], parts=4)
"""Of the table of `determinism_run`, others each day; the long run takes all."""
WORKERS = 2
PATIENCE_S = 90.0
HASHED_ROWS = 4_500_000
HASHED = (
    f"SELECT k, count(*) AS n, sum(length(sha2(cast(id AS string), 512))) AS s FROM"
    f" (SELECT id, id % 3 AS k FROM range({HASHED_ROWS})) GROUP BY k ORDER BY k"
)
"""Some seconds of work for two executors, and a shuffle."""
LISTENS = "0A"
"""The state of such a socket in the kernel's tables."""
ENDLESS = "SELECT count(*) AS n FROM range(1000000000000000) WHERE id % 7 = 3"
STUBBORN = r"SELECT count(*) AS n FROM range(1) WHERE rlike(concat(repeat('a', 64 + id), '!'), r'^(a|aa)+\1$')"
"""Its one task with a row never looks whether it shall stop."""


class OverTheWire(Derivative):
    """A derivative dataset whose transactions are run by an engine process."""

    engine: GrpcEngine

    def pull(self, upto: Sequence[int] | None = None) -> Transaction:
        request = self.request(upto)
        self.taken = [len(one.steps) for one in self.inputs] if upto is None else list(upto)
        result = self.engine.execute_transform(request, progress=ignore)
        root = self.call.exchange.root
        data, checkpoint = root / request.new_data_path, root / request.new_checkpoint_path
        self.transactions.append(Transaction(request, result, pq.read_table(data), data, checkpoint))
        return self.transactions[-1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), workers=WORKERS) as found:
        yield found


@pytest.fixture(scope="module")
def engines(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EngineUnderTest]]:
    """The engines of this module so far; only the last may run."""
    started: list[EngineUnderTest] = []
    yield started
    for engine in started[-1:]:
        if engine.process.poll() is None:  # the others ended as their tests wanted
            assert engine.stop() == 0, engine.log.read_text()[-2000:]


@pytest.fixture
def engine(
    cluster: SparkCluster, engines: list[EngineUnderTest], tmp_path_factory: pytest.TempPathFactory
) -> EngineUnderTest:
    """An engine with all executors: the last test's, or a new one if it ended."""
    for number in set(range(WORKERS)) - set(cluster.workers):
        cluster.start_worker(number)
    if not engines or engines[-1].process.poll() is not None:
        engines.append(EngineUnderTest(tmp_path_factory.mktemp("engine"), options=options(cluster)))
    with engines[-1].client() as client:
        wait_until(lambda: client.info().executors == WORKERS, deadline_s=PATIENCE_S, what="all executors")
    return engines[-1]


@pytest.fixture
def client(engine: EngineUnderTest) -> Iterator[GrpcEngine]:
    with engine.client() as found:
        yield found


@pytest.fixture
def alone(engine: EngineUnderTest, engine_call: EngineCall) -> EngineCall:
    """Calls of an engine without a cluster, on the same folder."""
    return replace(engine_call, exchange=ExchangeFolder.at(engine.exchange))


def options(cluster: SparkCluster) -> tuple[str, ...]:
    """Few rows are many here, so that executors do what they do with many.

    Large results go through files.
    """
    return (
        *("--spark-master", cluster.master, "--spark-secret-file", str(cluster.secret_file)),
        f"--executor-jvm-options={' '.join([QUICK_JVM, *archive_flags()])}",
        *("--executors-max", str(WORKERS), "--executor-memory-mib", "700", "--executors-lost-s-max", "20"),
        *("--transform-rows-in-memory-max", "100", "--collected-bytes-max", str(256 * 1024)),
        *("--stage-rows-max", "100", "--state-piece-rows", "100"),
    )


def ignore(progress: EngineProgress) -> None:
    pass


def ask(sql: str, name: str, *, wall_ms_max: int = 120_000) -> QueryRequest:
    return QueryRequest(
        sql=sql, inputs=(), skip=0, limit=10, bytes_max=1 << 20, wall_ms_max=wall_ms_max, output_path=name
    )


def answer(engine: EngineUnderTest, client: GrpcEngine, name: str) -> list[dict[str, object]]:
    client.query(ask(HASHED, name), progress=ignore)
    with pa.ipc.open_stream(engine.exchange / name) as reader:
        rows: list[dict[str, object]] = reader.read_all().to_pylist()
    return rows


EXPECTED = [{"k": k, "n": HASHED_ROWS // 3, "s": HASHED_ROWS // 3 * 128} for k in range(3)]


def test_transactions_have_the_same_hashes_as_alone(
    engine: EngineUnderTest, client: GrpcEngine, alone: EngineCall
) -> None:
    for number, name in enumerate(CHOSEN):
        query = REQUESTS[name]
        inputs, tables = inputs_of(query, engine.exchange)
        here = Derivative(query, inputs, alone, name=f"here-{number}", temporal_tables=tables)
        there = OverTheWire(query, inputs, alone, name=f"there-{number}", temporal_tables=tables)
        there.engine = client
        for upto in (BLOCKS // 2, BLOCKS):
            taken = [upto] * len(inputs)
            expected, found = here.pull(taken), there.pull(taken)
            assert found.table.num_rows, f"{name} tells nothing"
            assert logical_hash_of_parquet(found.slice_path) == logical_hash_of_parquet(expected.slice_path), name
            assert found.result.watermark == expected.result.watermark, name


def test_ingests_have_the_same_hashes_as_alone(engine: EngineUnderTest, client: GrpcEngine, alone: EngineCall) -> None:
    read = ReadStepCsv(header=True, infer_schema=True)
    dataset = Dataset(alone, merge=MergeStrategyLedger(primary_key=("city",)))
    dataset.ingest(read, b"city,population\n" + b"".join(b"city %d,%d\n" % (n, n) for n in range(5_000)))
    request = dataset.request(
        read, b"city,population\n" + b"".join(b"city %d,%d\n" % (n * 7919 % 20_000, n) for n in range(20_000))
    )
    expected = ingest(request, alone)
    found = client.ingest(replace(request, new_data_path="there"), progress=ignore)
    assert found == expected
    assert found.offsets is not None
    assert len(found.offsets) == 15_000
    here, there = (engine.exchange / name for name in (request.new_data_path, "there"))
    assert logical_hash_of_parquet(there) == logical_hash_of_parquet(here)


def test_wrong_rows_are_told_as_by_an_engine_alone(
    engine: EngineUnderTest, client: GrpcEngine, alone: EngineCall
) -> None:
    dataset = Dataset(alone, rounds=10)
    request = dataset.request(ReadStepCsv(header=True, schema=ddl("v INT")), b"v\n" + b"1\n" * 10 + b"x\n")
    with pytest.raises(InvalidData) as here:
        ingest(request, alone)
    with pytest.raises(InvalidData) as there:
        client.ingest(request, progress=ignore)
    assert (there.value.message, there.value.place) == (here.value.message, here.value.place)
    with pytest.raises(InvalidData, match=r"(?i)division by zero"):
        client.query(ask("SELECT 1 / (id - 3) AS v FROM range(10)", "divided"), progress=ignore)


def test_nobody_listens_beyond_the_address_that_it_was_given(cluster: SparkCluster, engine: EngineUnderTest) -> None:
    addresses = {"127.0.0.1"} | {f"127.0.0.{number + 2}" for number in cluster.workers}
    pids = [cluster.masters[0].pid, *(each.pid for each in cluster.workers.values()), *engine.inner_pids]
    pids += [seen.pid for worker in cluster.workers.values() for seen in descendants(worker.pid)]
    found = {address for pid in pids for address in listening(pid)}
    assert {f"127.0.0.{number + 2}" for number in cluster.workers} <= found <= addresses


def test_a_worker_that_dies_in_the_middle_of_a_call_changes_no_row(
    cluster: SparkCluster, engine: EngineUnderTest, client: GrpcEngine
) -> None:
    (executor,) = cluster.executors(0)
    before = cpu_s(executor)
    found: list[list[dict[str, object]]] = []
    call = threading.Thread(target=lambda: found.append(answer(engine, client, "killed")))
    call.start()
    wait_until(lambda: cpu_s(executor) - before > 1.0, deadline_s=PATIENCE_S, what="work of the executor")
    assert call.is_alive(), "the call must be under way"
    cluster.kill_worker(0)
    call.join(PATIENCE_S)
    assert found == [EXPECTED]
    assert client.info().executors == WORKERS - 1


def test_a_cancelled_call_ends_on_the_executors(
    cluster: SparkCluster, engine: EngineUnderTest, client: GrpcEngine
) -> None:
    with pytest.raises(LimitExceeded):
        client.query(ask(ENDLESS, "endless", wall_ms_max=2_000), progress=ignore)
    before = [cpu_s(pid) for number in range(WORKERS) for pid in cluster.executors(number)]
    assert len(before) == WORKERS, "executors are kept"
    client.query(ask("SELECT count(*) AS n FROM range(10)", "after"), progress=ignore)


def test_a_task_that_cannot_be_ended_takes_its_executor_along_and_nothing_else(
    cluster: SparkCluster, engine: EngineUnderTest, client: GrpcEngine
) -> None:
    before = {pid for number in range(WORKERS) for pid in cluster.executors(number)}
    # The first call of an engine may take longer than the limit before its task begins.
    client.query(ask("SELECT count(*) AS n FROM range(10)", "first"), progress=ignore)
    with pytest.raises(LimitExceeded):
        client.query(ask(STUBBORN, "stubborn", wall_ms_max=4_000), progress=ignore)
    wait_until(
        lambda: before - {pid for number in range(WORKERS) for pid in cluster.executors(number)},
        deadline_s=PATIENCE_S,
        what="the end of the executor",
    )
    assert engine.process.poll() is None


def test_without_executors_a_call_fails_for_sure_and_the_engine_ends(
    cluster: SparkCluster, engine: EngineUnderTest, client: GrpcEngine
) -> None:
    for number in range(WORKERS):
        cluster.kill_worker(number)
    with pytest.raises(Determinate, match="no executor"):
        client.query(ask("SELECT count(*) AS n FROM range(10)", "nobody"), progress=ignore)
    assert engine.process.wait(PATIENCE_S) == EXIT_NO_EXECUTORS


def test_a_master_that_is_not_there_is_named_in_time(cluster: SparkCluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    master = f"spark://127.0.0.1:{free_port()}"
    command = [
        *(sys.executable, "-P", "-m", "odfabric_engine_spark", "--listen", "127.0.0.1:0", "--spark-master", master),
        *("--spark-secret-file", str(cluster.secret_file), "--token-file", str(tmp_path / "token")),
        *("--exchange", str(tmp_path), "--cluster-wait-s-max", "1"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert f"cannot be reached: spark_master = {master}" in ended.stderr


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def listening(pid: int) -> set[str]:
    """Addresses on which a process takes connections."""
    sockets = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.exists() or file.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in sockets:
                packed = bytes.fromhex(fields[1].partition(":")[0])
                # Words of 32 bits in the order of this machine; an IPv4 address is the last of them.
                found.add(socket.inet_ntoa(packed[-4:][::-1]))
    return found

"""The storage library on real servers, beside each figure's bare operation.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/bench_persist.py [--appends 200] [--folder DIR] [--only NAME ...]

Prints p50 and p95 of small appends until they are acknowledged (SQLite with FULL synchronisation, PostgreSQL with its fsyncs, S3;
parts in the state or in blobs) and their ratio to a bare fsync, a bare commit of one row and a bare PUT, taken in turns; of the
way from a write to who listens; the rate of 32 threads on one shard and of 24 on shards of their own; requests to S3 for 1,000
moves of the since; MB/s of Arrow rows written at once and read as a snapshot beside Parquet bare. NAME is one of: append, listen,
contended, shards, requests, bulk. The folder decides which disk is measured;
PostgreSQL and the S3 server keep their data below /tmp. The load average is printed: figures of a busy machine say little.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard, WriteHandle
from odfabric_persist.errors import UpperMismatch
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus, Version
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.postgres_connections import PostgresSettings
from odfabric_persist.location.postgres_consensus import PostgresConsensus
from odfabric_persist.location.s3_access import S3Place, s3_client
from odfabric_persist.location.s3_blob import S3Blob
from odfabric_persist.location.s3_consensus import S3Consensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.notifications.notify import LocalNotifier, NoNotifier, Notifier
from odfabric_persist.notifications.notify_postgres import postgres_notifier
from odfabric_persist.notifications.notify_redis import redis_notifier
from odfabric_persist.rows import DIFF, TIME, RowCodec
from tests.support.servers.postgres import postgres_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.servers.valkey import redis_server
from tests.support.waiting import wait_until

CODEC = RowCodec(pa.schema([pa.field("key", pa.string())]), ("key",))
PAYLOAD = 300
THREADS = 32
MOVES = 1000
MAINTAIN_EVERY = 16
BULK_ROWS = 2_000_000
BULK_ROUNDS = 3
BULK_CODEC = RowCodec(
    pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64()), ("at", pa.timestamp("us", "UTC"))]),
    ("id",),
)
Act = Callable[[int], object]
SECTIONS = ("append", "listen", "contended", "shards", "requests", "bulk")


@dataclass
class Stores:
    """The servers of this run, and fresh stores on them."""

    folder: Path
    postgres_url: str
    redis_url: str
    s3: S3Server
    bucket: str
    stack: ExitStack
    _numbers: Iterator[int] = field(default_factory=count)

    def place(self) -> S3Place:
        """An empty part of the bucket."""
        return S3Place(
            bucket=self.bucket,
            prefix=f"{next(self._numbers)}/",
            endpoint=self.s3.endpoint,
            access_key=self.s3.access_key,
            secret_key=self.s3.secret_key,
            connections_max=THREADS,
        )

    def s3_blob(self) -> Blob:
        return self.stack.enter_context(closing(S3Blob(self.place())))

    def s3_consensus(self) -> Consensus:
        return self.stack.enter_context(closing(S3Consensus(self.place())))

    def folder_blob(self) -> Blob:
        return FolderBlob(self.folder / f"blobs{next(self._numbers)}")

    def sqlite(self) -> Consensus:
        return self.stack.enter_context(closing(SqliteConsensus(self.folder / f"{next(self._numbers)}.db")))

    def postgres(self, connections: int = 8) -> Consensus:
        settings = PostgresSettings(connections_max=connections)
        return self.stack.enter_context(closing(PostgresConsensus(self.postgres_url, settings)))

    def shard(
        self,
        blob: Blob,
        consensus: Consensus,
        *,
        codec: RowCodec = CODEC,
        notifier: Notifier | None = None,
        **limits: int,
    ) -> Shard:
        """A new shard as one process has it."""
        settings = PersistSettings(limits=BatchLimits(**limits))
        client = PersistClient(blob, consensus, settings, notifier=notifier or NoNotifier())
        return client.open(f"shard{next(self._numbers)}", codec)


def updates(time_: int) -> pa.Table:
    return pa.table({"key": ["x" * PAYLOAD], TIME: [time_], DIFF: [1]})


def rows() -> pa.Table:
    return pa.table({"key": ["x" * PAYLOAD], DIFF: [1]})


def percentiles(taken: list[float]) -> tuple[float, float]:
    taken.sort()
    return taken[len(taken) // 2] * 1e3, taken[len(taken) * 95 // 100] * 1e3


def timed(act: Act, times: int, between: Act = lambda _: None) -> list[float]:
    """Seconds of each call; what is done between calls does not count."""
    taken = []
    for number in range(times):
        start = time.perf_counter()
        act(number)
        taken.append(time.perf_counter() - start)
        between(number)
    return taken


def show(name: str, taken: list[float], bare: list[float] | None = None) -> None:
    p50, p95 = percentiles(taken)
    ratio = "" if bare is None else f"   {p50 / percentiles(bare)[0]:5.1f} x bare"
    print(f"  {name:52} p50 {p50:8.2f} ms   p95 {p95:8.2f} ms{ratio}")


def bare_fsync(stores: Stores) -> Act:
    opened = os.open(stores.folder / "bare", os.O_RDWR | os.O_CREAT)
    stores.stack.callback(os.close, opened)

    def act(_: int) -> None:
        os.write(opened, bytes(4096))
        os.fdatasync(opened)

    return act


def bare_commit(stores: Stores) -> Act:
    connection = stores.stack.enter_context(psycopg.connect(stores.postgres_url, autocommit=True, prepare_threshold=1))
    connection.execute("CREATE TABLE IF NOT EXISTS bare (data bytea)")
    return lambda _: connection.execute("INSERT INTO bare VALUES (%s)", (bytes(PAYLOAD),))


def bare_put(stores: Stores) -> Act:
    place = stores.place()
    client = stores.stack.enter_context(closing(s3_client(place)))
    return lambda number: client.put_object(Bucket=place.bucket, Key=f"{place.prefix}{number % 8}", Body=bytes(PAYLOAD))


def show_beside(name: str, act: Act, bare: Act, times: int, shard: Shard) -> None:
    """Measured in turns with the bare operation: a shared disk varies in speed."""
    beside: list[float] = []

    def between(number: int) -> None:
        beside.extend(timed(lambda _: bare(number), 1))
        if number % MAINTAIN_EVERY == MAINTAIN_EVERY - 1:
            shard.maintain()

    show(name, timed(act, times, between), beside)


def measure_append(stores: Stores, times: int) -> None:
    fsync, commit, put = bare_fsync(stores), bare_commit(stores), bare_put(stores)
    print("bare operations: fdatasync of 4 KiB, commit of one row in PostgreSQL, PUT of 300 B")
    for name, bare in (("fdatasync", fsync), ("commit", commit), ("PUT", put)):
        show(name, timed(bare, times))
    print("compare_and_append of 300 B until acknowledged, in turns with what it has to wait for")
    pairs: list[tuple[str, Blob, Consensus, int, Act]] = [
        ("folder + SQLite, part in the state / fdatasync", stores.folder_blob(), stores.sqlite(), 4096, fsync),
        ("folder + SQLite, part in a blob / fdatasync", stores.folder_blob(), stores.sqlite(), 0, fsync),
        ("S3 + PostgreSQL, part in the state / commit", stores.s3_blob(), stores.postgres(), 4096, commit),
        ("S3 + PostgreSQL, part in a blob / PUT", stores.s3_blob(), stores.postgres(), 0, put),
        ("S3 + S3, part in the state / PUT", stores.s3_blob(), stores.s3_consensus(), 4096, put),
        ("memory / fdatasync", MemoryBlob(), MemoryConsensus(), 4096, fsync),
    ]
    for name, blob, consensus, inline, bare in pairs:
        shard = stores.shard(blob, consensus, inline_bytes_max=inline)
        writer = shard.open_writer()

        def act(upper: int, writer: WriteHandle = writer) -> None:
            writer.compare_and_append(updates(upper), upper, upper + 1)

        show_beside(name, act, bare, times, shard)
    shard = stores.shard(stores.s3_blob(), stores.postgres())
    writer, reader = shard.open_writer(), shard.open_reader()
    writer.compare_and_append(updates(0), 0, 1)
    show_beside(
        "S3 + PostgreSQL: snapshot of a small shard / commit", lambda _: shard.snapshot(0), commit, times, shard
    )
    show_beside("S3 + PostgreSQL: move of the since / commit", reader.downgrade_since, commit, times, shard)


class Deaf(LocalNotifier):
    """Says that it signals, and loses everything."""

    def publish(self, shard: str, seqno: int) -> None:
        pass


def measure_listen(stores: Stores, times: int) -> None:
    print("from the write to who listens in another client (PostgreSQL)")
    kinds: list[tuple[str, Callable[[], Notifier], int]] = [
        ("told by PostgreSQL", lambda: postgres_notifier(stores.postgres_url), times),
        ("told by Redis", lambda: redis_notifier(stores.redis_url), times),
        ("nobody tells: a look every 0.1 s", NoNotifier, min(times, 50)),
        ("all announcements are lost: a look after 1 s", Deaf, min(times, 5)),
    ]
    for name, open_notifier, rounds in kinds:
        both = [open_notifier() for _ in range(2)]
        wait_until(lambda both=both: all(one.tells or isinstance(one, NoNotifier) for one in both), what="notifiers")
        show(name, ways(stores, both[0], both[1], rounds))
        for one in both:
            one.close()


def ways(stores: Stores, ours: Notifier, theirs: Notifier, times: int) -> list[float]:
    """Seconds from the beginning of a write to what another client hears of it."""
    blob, consensus = stores.folder_blob(), stores.postgres()
    writing = stores.shard(blob, consensus, notifier=ours)
    client = PersistClient(blob, stores.postgres(), PersistSettings(), notifier=theirs)
    listener = client.open(writing.machine.shard, CODEC).open_reader().listen(0)
    writer = writing.open_writer()
    writer.compare_and_append(updates(0), 0, 1)
    with ThreadPoolExecutor(1) as pool:

        def way(number: int) -> None:
            heard = pool.submit(listener.next, wait_s=30)
            writer.compare_and_append(updates(number + 1), number + 1, number + 2)
            assert heard.result() is not None

        return timed(way, times, lambda number: number % MAINTAIN_EVERY or writing.maintain())


def contended(shard: Shard, each: int, act: Callable[[Any], object]) -> tuple[float, list[float]]:
    """Acts of all threads a second, and how long each took.

    The shard is maintained meanwhile.
    """
    writers = [shard.open_writer() for _ in range(THREADS)]
    taken: list[float] = []
    done = threading.Event()

    def maintain() -> None:
        while not done.wait(0.2):
            shard.maintain()

    def work(writer: Any) -> None:
        taken.extend(timed(lambda _: act(writer), each))

    keeper = threading.Thread(target=maintain)
    keeper.start()
    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, writers))
    elapsed = time.perf_counter() - start
    done.set()
    keeper.join()
    return THREADS * each / elapsed, taken


def compared(shard: Shard) -> Callable[[Any], object]:
    """Appends at the upper as it is known, again and again until nobody came first."""

    def act(writer: Any) -> None:
        upper = shard.machine.cached().upper
        while True:
            try:
                writer.compare_and_append(updates(upper), upper, upper + 1)
            except UpperMismatch as error:
                upper = error.current
            else:
                return

    return act


def measure_contended(stores: Stores, times: int) -> None:
    print(f"{THREADS} threads on one shard")
    next_rows = rows()
    pairs: list[tuple[str, Callable[[], Blob], Callable[[], Consensus], int]] = [
        ("memory", MemoryBlob, MemoryConsensus, times),
        ("folder + SQLite", stores.folder_blob, stores.sqlite, times),
        ("folder + PostgreSQL", stores.folder_blob, stores.postgres, times),
        ("S3 + PostgreSQL", stores.s3_blob, stores.postgres, times),
        ("S3 + S3", stores.s3_blob, stores.s3_consensus, max(10, times // 10)),
    ]
    for name, open_blob, open_consensus, each in pairs:
        shard = stores.shard(open_blob(), open_consensus())
        rate, taken = contended(shard, each, lambda writer: writer.append_next(next_rows))
        show(f"{name}: at the next time, {rate:,.0f}/s", taken)
        shard = stores.shard(open_blob(), open_consensus())
        rate, taken = contended(shard, 3, compared(shard))
        show(f"{name}: compare and append, {rate:,.0f}/s", taken)


def measure_shards(stores: Stores, times: int) -> None:
    threads = 24
    consensus = stores.postgres(threads)

    def work(number: int) -> list[float]:
        key = f"own{number}"
        consensus.compare_and_set(key, None, Version(0, b""))
        return timed(lambda seqno: consensus.compare_and_set(key, seqno, Version(seqno + 1, bytes(PAYLOAD))), times)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        taken = [one for found in pool.map(work, range(threads)) for one in found]
    rate = len(taken) / (time.perf_counter() - start)
    print(f"{threads} threads, each with a register of its own")
    show(f"PostgreSQL: compare and set, {rate:,.0f}/s", taken)


def measure_requests(stores: Stores, _: int) -> None:
    print(f"requests to S3 for {MOVES:,} moves of the since, maintained as due")
    kinds: list[tuple[str, Callable[[Any, S3Place], Consensus]]] = [
        ("S3 + PostgreSQL", lambda _client, _place: stores.postgres()),
        ("S3 + S3", lambda client, place: S3Consensus(place, client=client)),
    ]
    for name, open_consensus in kinds:
        place = stores.place()
        client = stores.stack.enter_context(closing(s3_client(place)))
        shard = stores.shard(S3Blob(place.below("b/"), client=client), open_consensus(client, place.below("c/")))
        reader = shard.open_reader()
        found: list[str] = []
        client.meta.events.register("before-call.s3", lambda model, found=found, **_: found.append(model.name))
        moves = upkeep = 0
        for since in range(MOVES):
            before = len(found)
            reader.downgrade_since(since)
            moves += len(found) - before
            shard.maintain()
            upkeep += len(found) - before
        upkeep -= moves
        print(f"  {name:52} {moves:,} for the moves, {upkeep:,} for rollups and collection")


def bulk_rows(*, in_order: bool) -> pa.Table:
    """Rows that each have a name of their own, in the order of their key or in none."""
    chance = np.random.default_rng(7)
    ids = np.arange(BULK_ROWS) if in_order else chance.permutation(BULK_ROWS)
    columns = [
        pa.array(ids),
        pc.binary_join_element_wise("name", pc.cast(pa.array(ids), pa.string()), "-"),
        pa.array(chance.random(BULK_ROWS)),
        pa.array(chance.integers(0, 2**50, BULK_ROWS)).cast(pa.timestamp("us", "UTC")),
    ]
    return pa.table(columns, schema=BULK_CODEC.schema)


def measure_bulk(stores: Stores, _: int) -> None:
    """Against bare Parquet: same rows as they come, compression, synchronised file."""
    print(
        f"{BULK_ROWS:,} rows written at once and read as a snapshot, {BULK_ROUNDS} rounds, {pa.cpu_count()} threads of Arrow"
    )
    file = stores.folder / "bare.parquet"
    for name, rows in (
        ("in no order", bulk_rows(in_order=False)),
        ("in the order of their key", bulk_rows(in_order=True)),
    ):
        updates = rows.append_column(TIME, pa.repeat(0, BULK_ROWS)).append_column(DIFF, pa.repeat(1, BULK_ROWS))
        written, bare_written, read, bare_read = [], [], [], []
        for _ in range(BULK_ROUNDS):
            shard = stores.shard(stores.folder_blob(), stores.sqlite(), codec=BULK_CODEC)
            writer = shard.open_writer()
            written += timed(lambda _, writer=writer, updates=updates: writer.compare_and_append(updates, 0, 1), 1)
            bare_written += timed(lambda _, rows=rows: bare_parquet(rows, file), 1)
            read += timed(lambda _, shard=shard: shard.snapshot(0), 1)
            bare_read += timed(lambda _: pq.read_table(file), 1)
        show_rate(f"{name}: written", rows.nbytes, written, bare_written)
        show_rate(f"{name}: read", rows.nbytes, read, bare_read)


def show_rate(name: str, size: int, taken: list[float], bare: list[float]) -> None:
    (own, _), (other, _) = percentiles(taken), percentiles(bare)
    rate, bare_rate = size / own / 1e3, size / other / 1e3
    print(f"  {name:52} {rate:,.0f} MB/s, Parquet bare {bare_rate:,.0f} MB/s: {own / other:.1f} times as long")


def bare_parquet(rows: pa.Table, file: Path) -> None:
    with file.open("wb") as opened:
        pq.write_table(rows, opened, compression="zstd", use_dictionary=False)
        os.fdatasync(opened.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=SECTIONS)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(durable=True))
        redis = stack.enter_context(redis_server())
        s3 = stack.enter_context(s3_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odf-bench-", dir=options.folder)))
        stores = Stores(folder, postgres.create_database(), redis.url, s3, s3.create_bucket(), stack)
        for name in options.only:
            globals()[f"measure_{name}"](stores, options.appends)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

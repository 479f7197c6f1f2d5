"""Cost of backup and restore: database rows, and objects against a bare copy.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/node/bench_backup.py [--rows 200000] [--objects 500]

SQLite and folders. Rows are those of the outbox; objects have 1 MiB each. Bare: `shutil.copyfile` of the same objects and SHA3-256 of their
bytes, in the same run. A second backup in the same place copies no object.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import insert

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.sql.copying import SqlDatabaseCopy
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.node import outbox
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.instant import Instant
from odfabric.model.multihash import sha3_256_multihash
from odfabric.usecases.maintenance.backup import BackupPorts, back_up, restore

DATASET = parse_dataset_id("did:odf:fed01a3a418d9cddfc6bc056658ed69259fdfdafbd4e466ec32d5f4061a56b336376a")
OBJECT_BYTES = 1 << 20
AT_ONCE = 10_000


@contextmanager
def timed(name: str, count: int, unit: str) -> Iterator[None]:
    wall, processor = time.monotonic(), time.process_time()
    yield
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    print(f"{name:32} {wall:7.2f} s  {processor:7.2f} s of the processor  {count / max(wall, 1e-9):10,.0f} {unit}/s")


def store(folder: Path) -> FolderObjectStore:
    folder.mkdir()
    return FolderObjectStore(folder)


def make_rows(place: Path, count: int) -> None:
    upgrade(place)
    values = {"dataset_id": DATASET, "new_head": None, "occurred_at": Instant(10**18), "event": "{}"}
    with closing(Database(place)) as database, database.write() as connection:
        for start in range(0, count, AT_ONCE):
            connection.execute(insert(outbox), [values] * min(AT_ONCE, count - start))


def make_objects(objects: FolderObjectStore, count: int) -> None:
    for _ in range(count):
        data = os.urandom(OBJECT_BYTES)
        objects.put_bytes(data_key(DATASET, sha3_256_multihash(hashlib.sha3_256(data).digest())), data)


def copy_bare(source: Path, target: Path) -> None:
    target.mkdir()
    for number, path in enumerate(path for path in source.rglob("*") if path.is_file()):
        hashlib.sha3_256(path.read_bytes())
        shutil.copyfile(path, target / str(number))


def measure(rows: int, count: int, folder: Path) -> None:
    database, objects, place = folder / "node.db", store(folder / "objects"), store(folder / "place")
    make_rows(database, rows)
    clock, entropy = SystemClock(), SystemEntropy()
    from_node = BackupPorts(database=SqlDatabaseCopy(database, busy_s_max=30), objects=objects, place=place)
    with timed("backup: rows", rows, "rows"):
        back_up(ports=from_node, files={}, release="bench", clock=clock, entropy=entropy)
    make_objects(objects, count)
    with timed("bare: copy and hash objects", count, "MiB"):
        copy_bare(folder / "objects", folder / "bare")
    with timed("backup: the same rows, objects", count, "MiB"):
        back_up(ports=from_node, files={}, release="bench", clock=clock, entropy=entropy)
    with timed("backup: nothing new but rows", rows, "rows"):
        back_up(ports=from_node, files={}, release="bench", clock=clock, entropy=entropy)
    into = BackupPorts(
        database=SqlDatabaseCopy(folder / "restored.db", busy_s_max=30), objects=store(folder / "restored"), place=place
    )
    with timed("restore: rows and objects", rows, "rows"):
        restore(None, ports=into, put_files=lambda files: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--objects", type=int, default=500)
    options = parser.parse_args()
    print(f"load at the beginning: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        measure(options.rows, options.objects, Path(folder))


if __name__ == "__main__":
    main()

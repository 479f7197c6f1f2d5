"""Pulls of a dataset with every block, object and row verified.

Measured against a raw copy and SHA3-256 of the same bytes in the same run.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/chains/bench_transfer.py [--mb 100] [--slices 1000] [--ways folder,http,s3]

First what the checks of the slices cost on one core without any transfer: SHA3-256 of their bytes, the same and decoding, the same and the
logical hash and the rules of rows. A logical hash is SHA3-256 of the decoded values, so a pull hashes incompressible rows twice: on one
core it cannot be faster than about half of the baseline; with two cores it can, as objects are checked at the same time.
Slices hold rows of text that does not compress. Each way is pulled into a workspace of its own (folder of objects, SQLite), then pulled once
more with nothing new. The dataset comes into the bucket by a push, which is timed too.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.server
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import SecretStr

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.parquet.parquet_reading import batches_of, open_parquet
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_check import SliceRules, examine_slice
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, new_slice_schema
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.model.metadata import AddData, OffsetInterval, SetDataSchema
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.settings import Settings
from odfabric.testing.chains import START
from odfabric.transfer_settings import RemoteBucketKeys
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.support.real_chains import RealChain, remote_files
from tests.support.servers.s3 import s3_server

COLUMNS = new_slice_schema([pa.field("text", pa.string())], vocabulary=DatasetVocabulary())
ROW_BYTES = 2048
PIECE = 1024 * 1024
MB = 1_000_000


def write_origin(folder: Path, *, slices: int, slice_bytes: int) -> int:
    """A published dataset; bytes of its slices."""
    chance, chain = random.Random(1), RealChain(folder)
    chain.add(SetDataSchema(schema=arrow_to_data_schema(COLUMNS)))
    root, total = folder / "origin", 0
    for area in ("blocks", "data", "refs"):
        (root / area).mkdir(parents=True)
    count = max(1, slice_bytes // ROW_BYTES)
    for _ in range(slices):
        first, moment = chain.state.next_offset, chain.next_time
        values: dict[str, Any] = {
            "offset": list(range(first, first + count)),
            "op": [0] * count,
            "system_time": pa.array([moment.millis] * count).cast(TIMESTAMP_TYPE),
            "event_time": pa.array([START.millis] * count).cast(TIMESTAMP_TYPE),
            "text": [chance.randbytes(ROW_BYTES // 2).hex() for _ in range(count)],
        }
        rows = pa.table([pa.array(values[one.name], one.type) for one in COLUMNS], schema=COLUMNS)
        made = chain.slice(rows)
        chain.add(AddData(new_data=made, prev_offset=chain.state.last_offset, new_watermark=START), system_time=moment)
        ((path, data),) = chain.files.items()
        (root / path).write_bytes(data)
        total += len(data)
        chain.files.clear()
        for leftover in folder.glob("slice-*"):
            leftover.unlink()
    for path, data in remote_files(chain.blocks, {}).items():
        (root / path).write_bytes(data)
    return total


def copy_and_hash(origin: Path, into: Path) -> float:
    """Seconds of the baseline, one file after the other."""
    into.mkdir()
    started = time.perf_counter()
    for path in sorted((origin / "data").iterdir()):
        digest = hashlib.sha3_256()
        with path.open("rb") as source, (into / path.name).open("wb") as copy:
            while piece := source.read(PIECE):
                digest.update(piece)
                copy.write(piece)
        assert path.name == f"f1620{digest.hexdigest()}"
    return time.perf_counter() - started


def parts_of_checks(origin: Path) -> str:
    """MB/s of hashing, and of what is done besides, in processor time of one thread."""
    paths = sorted((origin / "data").iterdir())
    megabytes = sum(path.stat().st_size for path in paths) / MB
    vocabulary = DatasetVocabulary()

    def decode(path: Path) -> None:
        with open_parquet(path) as file:
            for _ in batches_of(file):
                pass

    def examine(path: Path) -> None:
        with open_slice(path, vocabulary) as slice_file:
            interval = OffsetInterval(start=0, end=slice_file.rows - 1)
        examine_slice(path, SliceRules(interval=interval, vocabulary=vocabulary))

    speeds: list[str] = []
    hashing = _seconds(physical_hash, paths)
    for name, seconds in (
        ("sha3", hashing),
        ("and decoding", hashing + _seconds(decode, paths)),
        ("and logical hash and rules", hashing + _seconds(examine, paths)),
    ):
        speeds.append(f"{name} {megabytes / seconds:.0f} MB/s")
    return ", ".join(speeds)


def _seconds(act: Callable[[Path], object], paths: Sequence[Path]) -> float:
    act(paths[0])
    started = time.process_time()
    for path in paths:
        act(path)
    return time.process_time() - started


class Counting(http.server.SimpleHTTPRequestHandler):
    """A plain web server of a folder that counts requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def web_folder(folder: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/origin"
        server.shutdown()


@contextlib.contextmanager
def workspace(folder: Path, name: str, **settings: Any) -> Iterator[Node]:
    place = Settings(workspace=folder / name, poll_anywhere=True, egress_allow=("127.0.0.0/8",), **settings)
    prepare_workspace(place)
    with open_node(place, engine=MemoryEngine(folder / name / "exchange")) as node:
        yield node


def finished(node: Node, act: Callable[[], Job]) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    job = node.jobs.work_until_ended(act(), worker="bench", listener=lambda _: None)
    assert job.status is JobStatus.SUCCEEDED, job.error
    return time.perf_counter() - started, json.loads(job.result or "{}")


def pull(node: Node, url: str) -> tuple[float, dict[str, Any]]:
    alias = DatasetAlias(node.account, Name("copy"))
    return finished(node, lambda: node.requests.pull(PullRequest(dataset=None, alias=alias, url=url)))


def push(node: Node, url: str) -> float:
    entry = node.datasets.page(after=None, limit=1)[0]
    return finished(node, lambda: node.sharing.push(entry, SendWish(to=url), by=node.operator))[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--ways", default="folder,http,s3")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        total = write_origin(folder, slices=asked.slices, slice_bytes=asked.mb * MB // asked.slices)
        megabytes, url = total / MB, f"file://{folder}/origin"
        print(f"{megabytes:.0f} MB in {asked.slices} slices; load {os.getloadavg()[0]:.1f}")
        print(f"one core: {parts_of_checks(folder / 'origin')}")
        for way in asked.ways.split(","):
            settings: dict[str, Any] = {}
            if way == "http":
                url = stack.enter_context(web_folder(folder))
            if way == "s3":
                server = stack.enter_context(s3_server())
                bucket = server.create_bucket()
                url = f"s3+{server.endpoint}/{bucket}/origin"
                keys = RemoteBucketKeys(
                    access_key=SecretStr(server.access_key), secret_key=SecretStr(server.secret_key)
                )
                settings = {"remote_s3_keys": {f"s3+{server.endpoint}/{bucket}": keys}}
                with workspace(folder, "pushing", **settings) as node:
                    pull(node, f"file://{folder}/origin")
                    seconds = push(node, url)
                    print(f"s3: push {megabytes / seconds:.1f} MB/s")
            with workspace(folder, f"pull-{way}", **settings) as node:
                raw = copy_and_hash(folder / "origin", folder / f"raw-{way}")
                Counting.requests = 0
                cpu = time.process_time()
                seconds, result = pull(node, url)
                cpu = time.process_time() - cpu
                assert len(result["blocks"]) == asked.slices + 2
                requests, Counting.requests = Counting.requests, 0
                again, result = pull(node, url)
                assert result["upToDate"] is True
            counted = f", {requests} requests, then {Counting.requests}" if way == "http" else ""
            print(
                f"{way}: pull {megabytes / seconds:.1f} MB/s, raw copy and sha3 {megabytes / raw:.1f} MB/s: "
                f"{100 * raw / seconds:.0f} %, {cpu:.1f} s of processor time; nothing new in {again * 1000:.0f} ms{counted}"
            )


if __name__ == "__main__":
    main()

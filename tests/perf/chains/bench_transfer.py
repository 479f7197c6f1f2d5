"""Pulls of a dataset with every block, object and row verified.

Measured against raw copies of the same bytes with SHA3-256, in the same run: of the folder, and over the way of the pull.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/chains/bench_transfer.py [--mb 100] [--slices 1000] [--ways folder,http,node,smart,s3]

First what the checks of the slices cost on one core without any transfer: SHA3-256 of their bytes, the same and decoding, the same and the
logical hash and the rules of rows. A logical hash is SHA3-256 of the decoded values, so a pull hashes incompressible rows twice: on one
core it cannot be faster than about half of the baseline; with two cores it can, as objects are checked at the same time.
Slices hold rows of text that does not compress. Each way is pulled into a workspace of its own (folder of objects, SQLite), then pulled once
more with nothing new. The dataset comes into the bucket and to the node of the Smart protocol by a push, which is timed too.
`http` is a plain web server, which gives one block for each request; `node` is a node of ours by the same protocol, which gives many.
Servers are processes of their own on the same cores: processor time is that of the client alone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.server
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
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
from tests.support.mirror_node import mirror_node
from tests.support.real_chains import RealChain, remote_files
from tests.support.servers.s3 import s3_server

COLUMNS = new_slice_schema([pa.field("text", pa.string())], vocabulary=DatasetVocabulary())
ROW_BYTES = 2048
PIECE = 1024 * 1024
MB = 1_000_000


@dataclass(frozen=True)
class Measured:
    """Seconds that passed, and seconds of the processor that this process used."""

    wall_s: float
    processor_s: float

    @classmethod
    def now(cls) -> Measured:
        """The clocks."""
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Measured) -> Measured:
        return Measured(self.wall_s - other.wall_s, self.processor_s - other.processor_s)


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


def copy_and_hash(origin: Path, raw: Callable[[str], Iterable[bytes]], into: Path) -> Measured:
    """The baseline, one object after the other."""
    into.mkdir()
    started = Measured.now()
    for path in sorted((origin / "data").iterdir()):
        digest = hashlib.sha3_256()
        with (into / path.name).open("wb") as copy:
            for piece in raw(f"data/{path.name}"):
                digest.update(piece)
                copy.write(piece)
        assert path.name == f"f1620{digest.hexdigest()}"
    took = Measured.now() - started
    shutil.rmtree(into)
    return took


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
    requests: Any = None

    def do_GET(self) -> None:
        with self.requests:
            self.requests.value += 1
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve_folder(folder: Path, port: Any, requests: Any) -> None:
    """The process of the web server."""
    Counting.requests = requests
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(folder))) as server:
        port.send(server.server_address[1])
        server.serve_forever()


@dataclass(frozen=True)
class Way:
    """Where a pull comes from, and how its bytes are read raw.

    `raw` gives pieces of an object by its path in the dataset.
    """

    url: str
    raw: Callable[[str], Iterable[bytes]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    requests: Callable[[], int] = lambda: 0


def over_http(base: str, **headers: str) -> Callable[[str], Iterable[bytes]]:
    """Objects read one after the other over one connection."""
    client = httpx.Client(headers=headers, trust_env=False, timeout=60)

    def pieces(path: str) -> Iterator[bytes]:
        with client.stream("GET", f"{base}/{path}", headers={"accept-encoding": "identity"}) as answer:
            answer.raise_for_status()
            yield from answer.iter_raw(PIECE)

    return pieces


def from_folder(root: Path) -> Callable[[str], Iterable[bytes]]:
    """Objects read from files."""

    def pieces(path: str) -> Iterator[bytes]:
        with (root / path).open("rb") as source:
            while piece := source.read(PIECE):
                yield piece

    return pieces


@contextlib.contextmanager
def web_way(folder: Path) -> Iterator[Way]:
    processes = multiprocessing.get_context("spawn")
    requests = processes.Value("q", 0)
    ours, theirs = processes.Pipe()
    server = processes.Process(target=serve_folder, args=(folder, theirs, requests), daemon=True)
    server.start()
    base = f"http://127.0.0.1:{ours.recv()}/origin"
    try:
        yield Way(base, over_http(base), requests=lambda: int(requests.value))
    finally:
        server.terminate()
        server.join()


@contextlib.contextmanager
def node_way(folder: Path, *, name: str, scheme: str) -> Iterator[Way]:
    with mirror_node(folder / f"theirs-{name}") as theirs:
        url = f"{scheme}{theirs.url}/local/copy"
        settings = {"remote_tokens": {theirs.url: SecretStr(theirs.token)}}
        base = f"{theirs.url}/local/copy"
        yield Way(url, over_http(base, authorization=f"Bearer {theirs.token}"), settings)


@contextlib.contextmanager
def bucket_way() -> Iterator[Way]:
    with s3_server() as server:
        bucket, client = server.create_bucket(), server.client()
        keys = RemoteBucketKeys(access_key=SecretStr(server.access_key), secret_key=SecretStr(server.secret_key))
        settings = {"remote_s3_keys": {f"s3+{server.endpoint}/{bucket}": keys}}

        def pieces(path: str) -> Iterable[bytes]:
            return iter(client.get_object(Bucket=bucket, Key=f"origin/{path}")["Body"].iter_chunks(PIECE))

        yield Way(f"s3+{server.endpoint}/{bucket}/origin", pieces, settings)


@contextlib.contextmanager
def workspace(folder: Path, name: str, **settings: Any) -> Iterator[Node]:
    place = Settings(workspace=folder / name, poll_anywhere=True, egress_allow=("127.0.0.0/8",), **settings)
    prepare_workspace(place)
    with open_node(place, engine=MemoryEngine(folder / name / "exchange")) as node:
        yield node


def finished(node: Node, act: Callable[[], Job]) -> tuple[Measured, dict[str, Any]]:
    started = Measured.now()
    job = node.jobs.work_until_ended(act(), worker="bench", listener=lambda _: None)
    assert job.status is JobStatus.SUCCEEDED, job.error
    return Measured.now() - started, json.loads(job.result or "{}")


def pull(node: Node, url: str) -> tuple[Measured, dict[str, Any]]:
    alias = DatasetAlias(node.account, Name("copy"))
    return finished(node, lambda: node.requests.pull(PullRequest(dataset=None, alias=alias, url=url)))


def push(node: Node, url: str) -> Measured:
    entry = node.datasets.page(after=None, limit=1)[0]
    return finished(node, lambda: node.sharing.push(entry, SendWish(to=url), by=node.operator))[0]


def measure(folder: Path, name: str, way: Way, *, megabytes: float, slices: int) -> None:
    """Raw copies, a pull, and a pull with nothing new."""
    origin = folder / "origin"
    with workspace(folder, f"pull-{name}", **way.settings) as node:
        copy = copy_and_hash(origin, from_folder(origin), folder / "raw")
        raw = copy_and_hash(origin, way.raw, folder / "raw")
        before = way.requests()
        took, result = pull(node, way.url)
        assert len(result["blocks"]) == slices + 2
        middle = way.requests()
        again, result = pull(node, way.url)
        assert result["upToDate"] is True
    requests = f", {middle - before} requests, then {way.requests() - middle}" if middle else ""
    print(
        f"{name}: pull {megabytes / took.wall_s:.0f} MB/s; of a raw copy of the folder {100 * copy.wall_s / took.wall_s:.0f} %, "
        f"of one over this way {100 * raw.wall_s / took.wall_s:.0f} %; processor time of the client, ms per MB: pull "
        f"{1000 * took.processor_s / megabytes:.1f}, raw copy of the folder {1000 * copy.processor_s / megabytes:.1f}, over this way "
        f"{1000 * raw.processor_s / megabytes:.1f}; nothing new in {1000 * again.wall_s:.0f} ms{requests}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    shutil.rmtree(folder / f"pull-{name}")


def send(folder: Path, name: str, way: Way, megabytes: float) -> None:
    """The dataset, pushed to where the way comes from."""
    with workspace(folder, f"pushing-{name}", **way.settings) as node:
        pull(node, f"file://{folder}/origin")
        url = f"odf+{way.url}" if way.url.startswith("http") else way.url
        took = push(node, url)
        print(f"{name}: push {megabytes / took.wall_s:.0f} MB/s")
    shutil.rmtree(folder / f"pushing-{name}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--ways", default="folder,http,node,smart,s3")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        total = write_origin(folder, slices=asked.slices, slice_bytes=asked.mb * MB // asked.slices)
        megabytes, origin = total / MB, folder / "origin"
        print(f"{megabytes:.0f} MB in {asked.slices} slices; load {os.getloadavg()[0]:.1f}")
        print(f"one core: {parts_of_checks(origin)}", flush=True)
        ways = {
            "folder": partial(contextlib.nullcontext, Way(f"file://{origin}", from_folder(origin))),
            "http": partial(web_way, folder),
            "node": partial(node_way, folder, name="node", scheme=""),
            "smart": partial(node_way, folder, name="smart", scheme="odf+"),
            "s3": bucket_way,
        }
        for name in asked.ways.split(","):
            with ways[name]() as way:
                if name in ("node", "smart", "s3"):
                    send(folder, name, way, megabytes)
                measure(folder, name, way, megabytes=megabytes, slices=asked.slices)


if __name__ == "__main__":
    main()

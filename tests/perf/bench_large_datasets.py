"""How long pages of wide and long datasets take to open on the embedded node.

Each must open within a second.

    ODF_BENCH_ROWS=10000000 .odf/venv/bin/python -m tests.perf.bench_large_datasets

`wide` has 1,000 columns and 10,000 rows, `long` has ODF_BENCH_ROWS rows in slices of 5,000,000. Blocks and slices are real, only their logical
hashes are not. One process with SQLite and a folder, asked over the loopback: first, p50 and p95 in milliseconds. Exit code 1 if a page
takes more than a second, the first time included.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.formats.identifiers.dataset_layout import block_key, data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.commit import CatalogEntry, OutboxMessage
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.metadata import DatasetKind, DataSlice, OffsetInterval, SetDataSchema
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.settings import Settings
from odfabric.testing.chains import ChainBuilder, example_id, example_push_source, logical_hash
from odfabric.usecases.people.sign_in import open_session
from odfabric.wiring import Node, open_node, prepare_workspace
from odfabric_api.sessions import PLAIN_COOKIE
from tests.perf.node.bench_console import percentiles
from tests.services.api.serving import serving

ROWS = int(os.environ.get("ODF_BENCH_ROWS", "10000000"))
SLICE_ROWS = 5_000_000
WIDE_COLUMNS, WIDE_ROWS, WIDE_SLICE_ROWS = 1000, 10_000, 5_000
REPEATS = 10
MS_MAX = 1000.0
PATHS = (
    "",
    "/-/rows",
    "/-/rows?skip=200",
    "/-/rows?columns=960",
    "/-/rows?column=c0&operator=%3E&value=1",
    "/-/profile",
    "/-/profile?first=900",
    "/-/history",
    "/-/rows?view=state",
    "/-/lineage",
    "/-/settings",
)
LONG = (
    pa.field("c0", pa.int64()),
    pa.field("c1", pa.float64()),
    pa.field("c2", pa.string()),
    pa.field("c3", pa.int32()),
)
WIDE = tuple(
    pa.field(f"c{number}", (pa.int64(), pa.float64(), pa.string())[number % 3]) for number in range(WIDE_COLUMNS)
)


def rows(schema: pa.Schema, begin: int, count: int, chance: np.random.Generator) -> Iterator[pa.RecordBatch]:
    """Rows of chance, with values that repeat."""
    moments = pa.array(np.full(count, 1_767_225_600_000), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    system = {"offset": np.arange(begin, begin + count), "op": np.zeros(count, np.int32)}
    columns: list[pa.Array] = []
    for field in schema:
        if field.name in system:
            columns.append(pa.array(system[field.name]))
        elif pa.types.is_timestamp(field.type):
            columns.append(moments)
        else:
            numbers = pa.array(chance.integers(0, 5000, count))
            columns.append(numbers.cast(field.type))
    yield from pa.table(columns, schema=schema).to_batches(max_chunksize=65_536)


def make(
    node: Node, objects: Path, name: str, fields: tuple[pa.Field, ...], count: int, slice_rows: int
) -> CatalogEntry:
    """A dataset of `count` rows under the local account."""
    schema = new_slice_schema(fields, vocabulary=DatasetVocabulary())
    dataset, chance = example_id(name), np.random.default_rng(3)
    chain = ChainBuilder(dataset_id=dataset)
    chain.append(example_push_source())
    chain.append(SetDataSchema(schema=arrow_to_data_schema(schema)))
    for begin in range(0, count, slice_rows):
        part = min(slice_rows, count - begin)
        path = objects.parent / f"{name}-{begin}.parquet"
        with SliceWriter(path, schema) as writer:
            for batch in rows(schema, begin, part, chance):
                writer.write(batch)
        found, size = physical_hash(path)
        stored = objects / data_key(dataset, found)
        stored.parent.mkdir(parents=True, exist_ok=True)
        path.rename(stored)
        offsets = OffsetInterval(start=begin, end=begin + part - 1)
        data = DataSlice(logical_hash=logical_hash(name), physical_hash=found, offset_interval=offsets, size=size)
        chain.append(chain.next_add_data(part, new_data=data))
    for encoded in chain.blocks:
        path = objects / block_key(dataset, encoded.hash)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded.data)
    last, created = chain.blocks[-1], chain.blocks[0].block.system_time
    entry = CatalogEntry(dataset, DatasetAlias(LOCAL_ACCOUNT, Name(name)), DatasetKind.ROOT, created)
    message = OutboxMessage(dataset, None, last.hash, last.block.system_time)
    node.ports.chains.append(dataset, expected=None, blocks=chain.blocks, message=message, entry=entry)
    return entry


def main() -> int:
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(workspace=Path(folder) / "w")
        prepare_workspace(settings)
        with open_node(settings) as node:
            objects = settings.workspace / "objects"
            started = time.perf_counter()
            make(node, objects, "wide", WIDE, WIDE_ROWS, WIDE_SLICE_ROWS)
            make(node, objects, "long", LONG, ROWS, SLICE_ROWS)
            print(f"made in {time.perf_counter() - started:.0f} s")
            account = node.ports.accounts.by_name(LOCAL_ACCOUNT)
            assert account is not None
            session = open_session(account, how="bench", device="bench", address=None, ports=node.people)
            with serving(node) as served, httpx.Client(base_url=served.url, trust_env=False, timeout=60) as client:
                client.cookies.set(PLAIN_COOKIE, session.text)
                print(f"{'page':<48}    first      p50      p95  ms, and bytes")
                for path in (f"/local/{name}{path}" for name in ("wide", "long") for path in PATHS):
                    slow += measured(client, path)
    return 1 if slow else 0


def measured(client: httpx.Client, path: str) -> bool:
    """Print the times of a page; whether one was too long."""
    taken = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        answer = client.get(path).raise_for_status()
        taken.append((time.perf_counter() - started) * 1000)
    shown = percentiles(taken)
    print(f"{path:<48}" + "".join(f"{each:9.1f}" for each in shown) + f"{len(answer.content):12,}", flush=True)
    return max(shown) > MS_MAX


if __name__ == "__main__":
    sys.exit(main())

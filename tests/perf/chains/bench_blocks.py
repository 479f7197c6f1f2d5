"""Blocks decoded, encoded and hashed per second, against SHA3-256 of their bytes.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/chains/bench_blocks.py [--seconds 1.0]

Blocks: all vectors of version 3 (every kind of event), and an AddData with all of its parts, of which chains mostly consist.
Decoding includes the check that the bytes are the canonical encoding, which writes the block again; the header read does not.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from odfabric.formats.blocks.block import block_hash, decode_block, encode_block, read_block_header
from odfabric.formats.manifests.manifest_yaml import block_to_manifest, dump_yaml, parse_blocks
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, Checkpoint, DataSlice, MetadataBlock, OffsetInterval, SourceState
from odfabric.model.multihash import ARROW0_SHA3_256, Multihash, sha3_256_multihash
from tests.support.vectors import vectors

NOW = Instant.parse("2024-02-29T12:34:56.789012345Z")


def whole_add_data() -> MetadataBlock:
    digest = sha3_256_multihash(bytes(range(32)))
    return MetadataBlock(
        system_time=NOW,
        prev_block_hash=digest,
        sequence_number=1000,
        event=AddData(
            prev_checkpoint=digest,
            prev_offset=999_999,
            new_data=DataSlice(
                logical_hash=Multihash(ARROW0_SHA3_256, digest.digest),
                physical_hash=digest,
                offset_interval=OffsetInterval(start=1_000_000, end=1_000_999),
                size=123_456,
            ),
            new_checkpoint=Checkpoint(physical_hash=digest, size=4096),
            new_watermark=NOW,
            new_source_state=SourceState(source_name="default", kind="odf/etag", value='"abc"'),
        ),
    )


def per_second(work: Callable[[Any], object], items: Sequence[Any], seconds: float) -> float:
    """The best of three runs of at least so many seconds of processor time each.

    Other processes do not count.
    """
    best = 0.0
    for _ in range(3):
        done, started = 0, time.process_time()
        while (elapsed := time.process_time() - started) < seconds:
            for item in items:
                work(item)
            done += len(items)
        best = max(best, done / elapsed)
    return best


def measure(name: str, stored: list[bytes], seconds: float) -> None:
    decoded = [decode_block(data) for data in stored]
    texts = [dump_yaml(block_to_manifest(block)) for block in decoded]
    size = sum(map(len, stored)) / len(stored)
    print(f"{name}: {len(stored)} blocks, {size:.0f} bytes on average")
    raw = per_second(lambda data: hashlib.sha3_256(data).digest(), stored, seconds)
    for label, work, items in (
        ("raw SHA3-256", lambda data: hashlib.sha3_256(data).digest(), stored),
        ("block hash", block_hash, stored),
        ("header", read_block_header, stored),
        ("decode", decode_block, stored),
        ("encode", encode_block, decoded),
        ("encode and hash", lambda block: block_hash(encode_block(block)), decoded),
        ("YAML to block", parse_blocks, texts),
    ):
        rate = per_second(work, items, seconds)
        print(f"  {label:16} {rate:10,.0f} blocks/s   {raw / rate:8.1f} times the time of raw SHA3-256")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=1.0, help="length of each run")
    seconds = arguments.parse_args().seconds
    entries = [entry for entry in [*vectors("blocks"), *vectors("ownBlocks")] if entry["manifestVersion"] == 3]
    measure("vectors", [bytes.fromhex(entry["producedHex"]) for entry in entries], seconds)
    measure("AddData", [encode_block(whole_add_data())], seconds)


if __name__ == "__main__":
    main()

"""Block vectors at their manifest version: form, bytes and hash agree both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odfabric.formats.blocks.block import (
    MANIFEST_VERSION,
    block_hash,
    decode_block,
    encode_block,
    encode_block_of_version,
    read_block_header,
)
from odfabric.formats.manifests.manifest_yaml import block_to_manifest, dump_yaml, parse_block_manifests
from tests.support.vectors import vectors

VECTORS = [*vectors("blocks"), *vectors("ownBlocks")]


def manifest_of(vector: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "MetadataBlock", "version": vector["manifestVersion"], "content": vector["block"]}


@pytest.fixture(params=VECTORS, ids=lambda vector: vector["id"])
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_there_are_vectors_of_both_versions() -> None:
    assert {vector["manifestVersion"] for vector in VECTORS} == {2, 3}


def test_the_manifest_gives_the_bytes_and_the_hash(vector: dict[str, Any]) -> None:
    [manifest] = parse_block_manifests(json.dumps(manifest_of(vector)))
    data = encode_block_of_version(manifest.block, manifest_version=manifest.version)
    assert data.hex() == vector["producedHex"]
    digest = vector.get("expectedSha3_256") or vector["producedSha3_256"]
    assert str(block_hash(data)) == f"f1620{digest}"
    assert vector.get("expectedBlockHash", f"f1620{digest}") == f"f1620{digest}"


def test_the_bytes_give_the_manifest(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["producedHex"])
    manifest = block_to_manifest(decode_block(data), version=read_block_header(data).manifest_version)
    assert manifest == manifest_of(vector)
    assert [found.block for found in parse_block_manifests(dump_yaml(manifest))] == [decode_block(data)]


def test_the_header_needs_no_event(vector: dict[str, Any]) -> None:
    header = read_block_header(bytes.fromhex(vector["producedHex"]))
    block = vector["block"]
    assert str(header.system_time) == block["systemTime"]
    assert (str(header.prev_block_hash) if header.prev_block_hash else None) == block.get("prevBlockHash")
    assert header.sequence_number == block["sequenceNumber"]
    assert header.event_type == block["event"]["kind"]
    assert header.manifest_version == vector["manifestVersion"]


def test_new_blocks_are_of_the_newest_version(vector: dict[str, Any]) -> None:
    data = encode_block(decode_block(bytes.fromhex(vector["producedHex"])))
    assert read_block_header(data).manifest_version == MANIFEST_VERSION
    assert (data.hex() == vector["producedHex"]) == (vector["manifestVersion"] == MANIFEST_VERSION)

"""`odf system`: blocks and digests without a workspace, in stable shapes.

Programs rely on these shapes.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.cli.app import main
from odfabric.formats.blocks.block import encode_block_of_version
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.manifests.manifest_yaml import parse_blocks
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.wiring import CRASH_POINTS

VECTORS = Path(__file__).parents[3] / "cases" / "vectors.json"

MANIFESTS = """\
kind: MetadataBlock
version: 2
content:
  systemTime: 2026-01-01T00:00:00Z
  sequenceNumber: 0
  event:
    kind: Seed
    datasetId: did:odf:fed01a073292b2781e744bc2229159c04eb8d9e5b0b7418fa18c4148d75fb51828e9c
    datasetKind: Root
---
kind: MetadataBlock
version: 2
content:
  systemTime: 2026-01-01T00:00:01Z
  prevBlockHash: f16209bd5ad0928f0655f34a299d58c17b6da7f528c5891689a1999cf82354c8d1e68
  sequenceNumber: 1
  event:
    kind: SetInfo
    description: Ω
"""


class Printed:
    """Runs a command; what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["system", *arguments]) == code
        self.out, self.err = self._capsys.readouterr()
        return self.out


@pytest.fixture
def system(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "blocks.yaml"
    path.write_text(MANIFESTS)
    return path


def test_encode_hash_and_decode_agree(system: Printed, manifests: Path, tmp_path: Path) -> None:
    encoded = [encode_block_of_version(block, manifest_version=2).hex() for block in parse_blocks(MANIFESTS, file="")]
    found = json.loads(system("block", "encode", str(manifests), "-o", "json"))
    assert [one["hex"] for one in found] == encoded
    assert [set(one) for one in found] == [{"hash", "hex"}] * 2
    assert json.loads(system("block", "hash", str(manifests), "-o", "json")) == found
    assert system("block", "encode", str(manifests)).split() == encoded
    assert system("block", "hash", str(manifests)).split() == [one["hash"] for one in found]

    lines = tmp_path / "blocks.hex"
    lines.write_text("\n\n".join(encoded) + "\n")
    decoded = json.loads(system("block", "decode", str(lines), "-o", "json"))
    assert [one["kind"] for one in decoded] == ["MetadataBlock"] * 2
    as_yaml = tmp_path / "decoded.yaml"
    as_yaml.write_text(system("block", "decode", str(lines)))
    assert system("block", "encode", str(as_yaml)).split() == encoded
    as_json = tmp_path / "decoded.json"
    as_json.write_text(json.dumps(decoded[1]))
    assert system("block", "encode", str(as_json)).split() == encoded[1:]


def test_blocks_of_every_manifest_version_keep_their_hash(system: Printed, tmp_path: Path) -> None:
    vectors = json.loads(VECTORS.read_text())["blocks"]
    manifests = [
        {"kind": "MetadataBlock", "version": vector["manifestVersion"], "content": vector["block"]}
        for vector in vectors
    ]
    file = tmp_path / "blocks.json"
    file.write_text(json.dumps(manifests))
    hashes = [encoded["hash"] for encoded in json.loads(system("block", "hash", str(file), "-o", "json"))]
    assert hashes == [vector["expectedBlockHash"] for vector in vectors]
    lines = tmp_path / "blocks.hex"
    lines.write_text("\n".join(vector["producedHex"] for vector in vectors))
    decoded = json.loads(system("block", "decode", str(lines), "-o", "json"))
    assert [manifest["version"] for manifest in decoded] == [vector["manifestVersion"] for vector in vectors]


def test_wrong_hex_and_wrong_manifests_are_placed(system: Printed, manifests: Path, tmp_path: Path) -> None:
    lines = tmp_path / "blocks.hex"
    lines.write_text("\nxyz\n")
    assert system("block", "decode", str(lines), code=1) == ""
    assert f"{lines}, line 2, column 1: not hex: 'x'" in system.err
    for wrong in ("abc", "deadbeef"):
        lines.write_text(f"\n\n{wrong}\n")
        assert system("block", "decode", str(lines), code=1) == ""
        assert f"{lines}, line 3" in system.err
    manifests.write_text(MANIFESTS.replace("sequenceNumber: 1", "sequenceNumber: one"))
    assert system("block", "hash", str(manifests), code=1) == ""
    assert f"{manifests}, line 16" in system.err


def test_digest_of_parquet_and_ipc(system: Printed, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3]})
    parquet, ipc = tmp_path / "a.parquet", tmp_path / "a.arrow"
    pq.write_table(table, parquet)
    with pa.ipc.new_file(ipc, table.schema) as writer:
        writer.write_table(table)
    first, second = json.loads(system("digest", str(parquet), str(ipc), "-o", "json"))
    assert first == {
        "path": str(parquet),
        "rows": 3,
        "physicalHash": str(physical_hash(parquet)[0]),
        "logicalHash": str(logical_hash_of_parquet(parquet).multihash),
    }
    assert (second["rows"], second["logicalHash"]) == (3, first["logicalHash"])
    assert second["physicalHash"] != first["physicalHash"]
    assert f"logicalHash:  {first['logicalHash']}\n" in system("digest", str(parquet))


def test_a_file_that_is_no_data_is_refused_by_name(system: Printed, manifests: Path) -> None:
    system("digest", str(manifests), code=1)
    assert "blocks.yaml" in system.err


def test_crash_points_are_named_and_explained(system: Printed) -> None:
    points = json.loads(system("crash-points", "-o", "json"))
    assert {point["name"]: point["where"] for point in points} == dict(CRASH_POINTS)
    assert len(system("crash-points").splitlines()) == len(CRASH_POINTS)

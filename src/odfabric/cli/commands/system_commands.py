"""Verbs below `odf system`: formats without a workspace, crash points."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import typer

from odfabric.cli.backends.backend import check_file, source_text
from odfabric.cli.context import context_of
from odfabric.errors import InvalidBlock, InvalidRequest, Place

TEXT_BYTES_MAX = 256 * 1024 * 1024

app = typer.Typer(help="Formats, digests and drills.", no_args_is_help=True)
block_app = typer.Typer(help="Metadata blocks: manifests to bytes and back.", no_args_is_help=True)
app.add_typer(block_app, name="block")

FILE = typer.Argument("-", help="File, - for standard input")


@block_app.command("encode")
def encode(context: typer.Context, file: str = FILE) -> None:
    """MetadataBlock manifests (YAML or JSON, one or many) to the hex of their bytes."""
    _encode(context, file, show="hex")


@block_app.command("hash")
def hash_blocks(context: typer.Context, file: str = FILE) -> None:
    """MetadataBlock manifests (YAML or JSON, one or many) to their block hashes."""
    _encode(context, file, show="hash")


@block_app.command("decode")
def decode(context: typer.Context, file: str = FILE) -> None:
    """Hex of blocks, one a line, to manifests."""
    from odfabric.formats.blocks.block import decode_block, read_block_header
    from odfabric.formats.manifests.manifest_yaml import block_to_manifest
    from odfabric.formats.manifests.yaml_writer import dump_yaml

    output = context_of(context).output
    text, shown = source_text(file, bytes_max=TEXT_BYTES_MAX)
    manifests = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        data = _bytes_of_hex(line, Place(file=shown, line=number))
        try:
            version = read_block_header(data).manifest_version
            manifests.append(block_to_manifest(decode_block(data), version=version))
        except InvalidBlock as error:
            error.place = replace(error.place, file=shown, line=number)
            raise
    if output.as_json:
        output.document(manifests)
    else:
        output.text("---\n".join(dump_yaml(manifest) for manifest in manifests))


@app.command("digest")
def digest(context: typer.Context, files: list[str] = typer.Argument(help="Parquet or Arrow IPC files")) -> None:
    """Rows, physical and logical hash of data files."""
    from odfabric.formats.identifiers.physical_hash import physical_hash
    from odfabric.formats.slices.logical_hash import logical_hash_of_ipc, logical_hash_of_parquet

    output = context_of(context).output
    found = []
    for file in files:
        check_file(file)
        path = Path(file)
        with path.open("rb") as stream:
            is_parquet = stream.read(4) == b"PAR1"
        logical = logical_hash_of_parquet(path) if is_parquet else logical_hash_of_ipc(path)
        physical, _ = physical_hash(path)
        found.append(
            {
                "path": file,
                "rows": logical.rows,
                "physicalHash": str(physical),
                "logicalHash": str(logical.multihash),
            }
        )
    if output.as_json:
        output.document(found)
        return
    for one in found:
        output.result(None, "\n".join(f"{name + ':':14}{value}" for name, value in one.items()))


@app.command("crash-points")
def crash_points(context: typer.Context) -> None:
    """Places at which `ODF_CRASH_AT` makes a process kill itself, for drills."""
    from odfabric.wiring import CRASH_POINTS

    output = context_of(context).output
    if output.as_json:
        output.document([{"name": name, "where": text} for name, text in CRASH_POINTS.items()])
        return
    for name, text in CRASH_POINTS.items():
        output.result(None, f"{name:32} {text}")


def _bytes_of_hex(line: str, place: Place) -> bytes:
    try:
        return bytes.fromhex(line)
    except ValueError:
        wrong = re.search(r"[^0-9a-fA-F\s]", line)
        if wrong is None:
            raise InvalidRequest("half of a byte: hex has two digits a byte", place=place) from None
        place = replace(place, column=wrong.start() + 1)
        raise InvalidRequest(f"not hex: {wrong[0]!r}", place=place) from None


def _encode(context: typer.Context, file: str, *, show: str) -> None:
    from odfabric.formats.blocks.block import block_hash, encode_block_of_version
    from odfabric.formats.manifests.manifest_yaml import parse_block_manifests

    output = context_of(context).output
    text, shown = source_text(file, bytes_max=TEXT_BYTES_MAX)
    # A manifest of version 2 describes bytes of version 2: only those have the block's hash.
    manifests = parse_block_manifests(text, file=shown)
    encoded = [encode_block_of_version(found.block, manifest_version=found.version) for found in manifests]
    found = [{"hash": str(block_hash(data)), "hex": data.hex()} for data in encoded]
    if output.as_json:
        output.document(found)
    else:
        output.text("\n".join(one[show] for one in found))

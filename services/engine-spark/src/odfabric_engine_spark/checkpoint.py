"""Checkpoints: what the engine keeps from one transaction of a derivative dataset to the next.

Owns the file: a magic, the length of a JSON header, the header, then the parts that it lists, as Arrow IPC. Invariant: equal
states are equal files, byte by byte, and a file that this module did not write, or that another query wrote, is refused with
a reason. `bases` names checkpoints that a file builds on; it is empty, for every file is full. Not here: what the parts mean
(`incremental`). Source: semantics of transforms, section 5; rulings on checkpoints.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric.model.instant import Instant

MAGIC = b"ODFCKPT\n"
FORMAT = "odfabric-checkpoint"
VERSION = 1
HEADER_BYTES_MAX = 16 << 20
_LENGTH = struct.Struct("<Q")
_COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPosition:
    """How far an input has been read: the offset of its next row, and its watermark so far."""

    dataset_id: str
    next_offset: int
    watermark: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State after a transaction. `fingerprint` tells the query apart, `parts` are tables by name."""

    fingerprint: str
    inputs: tuple[InputPosition, ...]
    watermark: Instant | None
    parts: Mapping[str, pa.Table] = field(default_factory=dict)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes the file. OSError passes through."""
    bodies = {name: _ipc(checkpoint.parts[name]) for name in sorted(checkpoint.parts)}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "bases": [],
        "query": checkpoint.fingerprint,
        "watermark": _nanos(checkpoint.watermark),
        "inputs": [
            {
                "datasetId": position.dataset_id,
                "nextOffset": position.next_offset,
                "watermark": _nanos(position.watermark),
            }
            for position in checkpoint.inputs
        ],
        "parts": [{"name": name, "bytes": len(body)} for name, body in bodies.items()],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.write(MAGIC + _LENGTH.pack(len(text)) + text)
        for body in bodies.values():
            file.write(body)


def read_checkpoint(path: Path, *, name: str) -> Checkpoint:
    """The state in a file that users know as `name`. Raises InvalidData if it is not one of ours, or damaged."""
    data = pa.memory_map(str(path)) if path.stat().st_size else pa.BufferReader(b"")
    with data:
        header = _header(data, name)
        try:
            parts = {part["name"]: _table(_body(data, int(part["bytes"]))) for part in header["parts"]}
            inputs = tuple(
                InputPosition(
                    dataset_id=str(each["datasetId"]),
                    next_offset=int(each["nextOffset"]),
                    watermark=_instant(each["watermark"]),
                )
                for each in header["inputs"]
            )
            return Checkpoint(
                fingerprint=str(header["query"]),
                inputs=inputs,
                watermark=_instant(header["watermark"]),
                parts=parts,
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException, OSError) as error:
            raise _refused(name, "checkpoint-damaged", f"the checkpoint is damaged: {error}") from error


def _header(data: pa.NativeFile, name: str) -> dict[str, Any]:
    start = data.read(len(MAGIC) + _LENGTH.size)
    if not start.startswith(MAGIC):
        raise _refused(name, "checkpoint-foreign", "the checkpoint was not written by this engine")
    length = _LENGTH.unpack(start[len(MAGIC) :])[0] if len(start) == len(MAGIC) + _LENGTH.size else HEADER_BYTES_MAX + 1
    text = data.read(length) if length <= HEADER_BYTES_MAX else b""
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _refused(name, "checkpoint-damaged", "the checkpoint has no readable header")
    if header.get("version") != VERSION or header.get("bases") != []:
        raise _refused(
            name,
            "checkpoint-version",
            f"the checkpoint has version {header.get('version')}, this engine reads version {VERSION}",
        )
    return header


def _refused(name: str, rule: str, message: str) -> InvalidData:
    hint = "run the transform with the engine that made it, or reset the dataset"
    return InvalidData(message, place=Place(file=name, rule=rule), hint=hint)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    whole = table.combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
    with pa.ipc.new_stream(sink, whole.schema, options=options) as writer:
        writer.write_table(whole)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _body(data: pa.NativeFile, size: int) -> pa.Buffer:
    body = data.read_buffer(size)
    if body.size != size:
        raise ValueError(f"{size - body.size} bytes are missing")
    return body


def _table(buffer: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(buffer) as reader:
        return reader.read_all()


def _nanos(instant: Instant | None) -> int | None:
    return None if instant is None else instant.epoch_ns


def _instant(nanos: object) -> Instant | None:
    return None if nanos is None else Instant(int(str(nanos)))

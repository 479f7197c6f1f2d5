"""Checkpoint files: a magic, a header, parts by name.

Owns where things lie, and the refusal of files that are not ours, too new or damaged. Invariant: parts lie at multiples of 64
bytes, so that they are used where they are mapped; nothing is read but the header until a part is asked for. Files of version 1,
whose parts are tables one after the other, are still read. Not here: what the header says (`checkpoint`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric_engine_spark.arrays.mapped_files import MappedFiles
from odfabric_engine_spark.state.checkpoint_refusal import damaged, refused
from odfabric_engine_spark.state.run import FilePart
from odfabric_engine_spark.state.run_file import WrittenPart

MAGIC = b"ODFCKPT\n"
FORMAT = "odfabric-checkpoint"
VERSION = 2
HEADER_BYTES_MAX = 16 << 20
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """An opened file.

    It is mapped once; `parts` say where they lie, `tables` are the parts of version 1.
    """

    header: Mapping[str, Any]
    body: pa.Buffer
    parts: Mapping[str, FilePart]
    tables: Mapping[str, pa.Table]

    def part(self, name: str) -> pa.Buffer:
        """The bytes of a part."""
        return self.body.slice(self.parts[name].at, self.parts[name].size)


def write_file(path: Path, header: Mapping[str, Any], parts: Mapping[str, WrittenPart]) -> None:
    """Writes the file; `header` lacks the format, its version and the parts.

    OSError passes through.
    """
    listed, end = [], 0
    for name, part in parts.items():
        listed.append({"name": name, "at": end, "bytes": part.size})
        end = _aligned(end + part.size)
    whole = {**header, "format": FORMAT, "version": VERSION, "parts": listed}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    start = MAGIC + _LENGTH.pack(len(text)) + text
    with path.open("wb") as file:
        file.write(start.ljust(_aligned(len(start)), b"\0"))
        for part in parts.values():
            part.copy_to(file)
            file.write(bytes(_aligned(part.size) - part.size))


def open_file(path: Path, *, name: str, mapped: MappedFiles | None = None) -> CheckpointFile:
    """The file that users know as `name`.

    Raises InvalidData if it is not one of ours, or damaged.
    """
    body = (mapped or MappedFiles()).mapped(path)
    with pa.BufferReader(body) as data:
        header = _header(data, name)
        with damaged(name):
            if header["version"] == 1:
                return CheckpointFile(header, pa.py_buffer(b""), {}, _tables(data, header["parts"]))
            return CheckpointFile(header, body, _parts(path, data, header["parts"]), {})


def _header(data: pa.NativeFile, name: str) -> dict[str, Any]:
    start = data.read(len(MAGIC) + _LENGTH.size)
    if not start.startswith(MAGIC):
        raise refused(name, "checkpoint-foreign", "the checkpoint was not written by this engine")
    length = _LENGTH.unpack(start[len(MAGIC) :])[0] if len(start) == len(MAGIC) + _LENGTH.size else HEADER_BYTES_MAX + 1
    text = data.read(length) if length <= HEADER_BYTES_MAX else b""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise refused(name, "checkpoint-damaged", "the checkpoint has no readable header")
    version = header.get("version")
    if version not in (1, VERSION) or (version == 1 and header.get("bases") != []):
        message = f"the checkpoint has version {version}, this engine reads versions 1 to {VERSION}"
        raise refused(name, "checkpoint-version", message)
    return header


def _parts(path: Path, data: pa.NativeFile, listed: Sequence[Mapping[str, Any]]) -> dict[str, FilePart]:
    start, size = _aligned(data.tell()), data.size()
    parts = {}
    for part in listed:
        at, length = int(part["at"]), int(part["bytes"])
        if at < 0 or at % _ALIGNMENT or length < 0 or start + at + length > size:
            raise ValueError(f"the part {part['name']} lies outside the file")
        parts[str(part["name"])] = FilePart(path, start + at, length)
    return parts


def _tables(data: pa.NativeFile, listed: Sequence[Mapping[str, Any]]) -> dict[str, pa.Table]:
    tables = {}
    for part in listed:
        body = data.read_buffer(int(part["bytes"]))
        if body.size != int(part["bytes"]):
            raise ValueError(f"{int(part['bytes']) - body.size} bytes are missing")
        with pa.ipc.open_stream(body) as reader:
            tables[str(part["name"])] = reader.read_all()
    return tables


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT

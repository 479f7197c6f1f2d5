"""The files of a shapefile in a ZIP archive.

Owns which `.shp` of an archive is meant, and the way of its parts into scratch files, for readers jump about in them. Invariant: names in
an archive never become paths, and what is unpacked is counted while it is unpacked. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from odfabric.errors import InvalidData, InvalidManifest, LimitExceeded, Place
from odfabric_engine_spark.ingest.encodings import known_encoding
from odfabric_engine_spark.spark.calls.call import EngineCall

_SHAPES, _TABLE, _ENCODING = ".shp", ".dbf", ".cpg"
_OF_THE_FINDER = "__MACOSX/"
"""Folder in which macOS puts entries of its own, named like the files."""
_SHOWN_NAMES_MAX = 10
_PIECE_BYTES = 1 << 20
_ENCODING_NAME_BYTES_MAX = 100
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)
"""What the library raises over damaged or encrypted archives."""


@dataclass(frozen=True, slots=True)
class ShapefileParts:
    """A shapefile: the users' archive, its parts as files, its encoding if named."""

    name: str
    shapes: Path
    table: Path
    encoding: str | None


def unpack(path: Path, name: str, sub_path: str | None, call: EngineCall, *, number: int) -> ShapefileParts:
    """The parts of the one shapefile of an archive, in files of their own.

    Raises InvalidData, LimitExceeded.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_of_the_finder(entry)]
            chosen = _chosen([entry.filename for entry in entries], sub_path, name)
            parts = {part: _beside(entries, chosen, part) for part in (_SHAPES, _TABLE, _ENCODING)}
            table = parts[_TABLE]
            if table is None:
                raise InvalidData(
                    f"{chosen} has no table of attributes beside it",
                    place=Place(file=name),
                    hint=f"a shapefile is several files of one name: put the `{_TABLE}` into the archive",
                )
            budget = _Budget(call.settings.input_unpacked_bytes_max, name)
            shapes = call.scratch / f"shapes-{number}"
            rows = call.scratch / f"table-{number}"
            for entry, target in ((parts[_SHAPES], shapes), (table, rows)):
                assert entry is not None
                with archive.open(entry) as packed, target.open("wb") as unpacked:
                    _copy(packed, unpacked, budget, call)  # type: ignore[arg-type]
            return ShapefileParts(name, shapes, rows, _encoding(archive, parts[_ENCODING], name))
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidData(
            f"Not a readable ZIP archive: {error}",
            place=Place(file=name),
            hint="pack the files of the shapefile (.shp, .shx, .dbf, .prj, .cpg) into a ZIP archive without a password",
        ) from None


def _is_of_the_finder(entry: zipfile.ZipInfo) -> bool:
    return entry.filename.startswith(_OF_THE_FINDER)


def _chosen(names: Sequence[str], sub_path: str | None, archive: str) -> str:
    """The entry of `sub_path`, exact or a pattern; without it the only one."""
    shapes = [name for name in names if name.lower().endswith(_SHAPES)]
    found = shapes
    if sub_path is not None:
        found = [sub_path] if sub_path in names else [name for name in shapes if fnmatchcase(name, sub_path)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(shapes[:_SHOWN_NAMES_MAX]) + (", .." if len(shapes) > _SHOWN_NAMES_MAX else "")
    which = f"with the name `{sub_path}`" if sub_path is not None else "in the archive"
    raise InvalidData(
        f"One file *{_SHAPES} is expected {which}, there are {len(found)}",
        place=Place(file=archive),
        hint=f"name one by subPath: {listed}"
        if shapes
        else f"the archive has {len(names)} files, and none is *{_SHAPES}",
    )


def _beside(entries: Sequence[zipfile.ZipInfo], shapes: str, part: str) -> zipfile.ZipInfo | None:
    """The entry of the same name with another ending, in capitals or not."""
    if part == _SHAPES:
        return next(entry for entry in entries if entry.filename == shapes)
    stem = shapes[: -len(_SHAPES)]
    return next(
        (each for each in entries if each.filename[: -len(part)] == stem and each.filename.lower().endswith(part)), None
    )


@dataclass(slots=True)
class _Budget:
    """Bytes that may still be unpacked."""

    maximum: int
    name: str
    taken: int = 0

    def take(self, count: int) -> None:
        """Counts bytes. Raises LimitExceeded."""
        self.taken += count
        if self.taken > self.maximum:
            place = Place(file=self.name)
            limit = "input_unpacked_bytes_max"
            raise LimitExceeded("Unpacked, the file is too large", limit=limit, maximum=self.maximum, place=place)


def _copy(packed: BinaryIO, unpacked: BinaryIO, budget: _Budget, call: EngineCall) -> None:
    while piece := packed.read(_PIECE_BYTES):
        call.check()
        budget.take(len(piece))
        unpacked.write(piece)


def _encoding(archive: zipfile.ZipFile, entry: zipfile.ZipInfo | None, name: str) -> str | None:
    """The Python name of the encoding that the archive states."""
    if entry is None:
        return None
    with archive.open(entry) as file:
        stated = file.read(_ENCODING_NAME_BYTES_MAX).decode("ascii", "replace").strip()
    if not stated:
        return None
    digits = "".join(character for character in stated if character.isdigit())
    # Programs write `1252` for a code page, and `88591` for part 1 of ISO 8859.
    part = digits.removeprefix("8859")
    for candidate in (stated, *([f"iso8859-{part}"] if part != digits and part else []), f"cp{digits}"):
        try:
            return known_encoding(candidate)
        except InvalidManifest:
            continue
    raise InvalidData(
        f"The encoding `{stated}` of the shapefile is not known",
        place=Place(file=name),
        hint="write UTF-8 into the .cpg",
    )

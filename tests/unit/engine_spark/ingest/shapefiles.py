"""Shapefiles in tests: archives of given shapes and attributes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import shapefile

POINT = {"type": "Point", "coordinates": [1.5, 2]}


def shapefile_of(
    columns: Sequence[tuple[str, str, int, int]], rows: Sequence[tuple[Any, Sequence[Any]]], *, encoding: str = "utf-8"
) -> dict[str, bytes]:
    """The parts of a shapefile.

    A row is its geometry as GeoJSON, None for none or what writes it, and its attributes.
    """
    parts = {ending: io.BytesIO() for ending in (".shp", ".shx", ".dbf")}
    with shapefile.Writer(shp=parts[".shp"], shx=parts[".shx"], dbf=parts[".dbf"], encoding=encoding) as writer:
        for name, kind, size, decimals in columns:
            writer.field(name, kind, size, decimals)
        for geometry, values in rows:
            if callable(geometry):
                geometry(writer)
            else:
                writer.null() if geometry is None else writer.shape(geometry)
            writer.record(*values)
    return {ending: part.getvalue() for ending, part in parts.items()}


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """An archive of these entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def archive_of(stem: str, parts: Mapping[str, bytes], **others: bytes) -> bytes:
    """An archive of one shapefile, and other entries."""
    return zipped({f"{stem}{ending}": content for ending, content in parts.items()} | others)

"""The shape of a file as JSON, in requests and results of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odfabric.model.file_shape import FileFormat, FileShape


def shape_value(shape: FileShape) -> dict[str, object]:
    """A shape as JSON."""
    return {"format": shape.format.value, "separator": shape.separator, "header": shape.header}


def shape_of(value: Mapping[str, Any]) -> FileShape:
    """The way back. Raises KeyError, ValueError for what `shape_value` did not make."""
    return FileShape(format=FileFormat(value["format"]), separator=value["separator"], header=value["header"])

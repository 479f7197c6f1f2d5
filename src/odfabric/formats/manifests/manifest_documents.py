"""Texts of manifests to documents: YAML, JSON, or several JSON values in a row.

Owns the choice between the two readers, and the places inside JSON texts. JSON is read as JSON where it is JSON, because
readers of YAML differ from it in corners (escapes, long keys, values in a row). Not here: what a document means
(`formats.manifests.manifest_yaml`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from odfabric.errors import InvalidManifest, LimitExceeded, Place
from odfabric.formats.json_values.canonical_json import JsonValue, check_json_value, decode_json
from odfabric.formats.manifests.scalar_places import WrittenScalar
from odfabric.formats.manifests.yaml_documents import Path, TextLimits, read_yaml_documents

_SPACE = re.compile(r"[ \t\n\r]*", re.ASCII)
_BYTE_ORDER_MARK = "\ufeff"


class Document(Protocol):
    """One document of a text."""

    @property
    def value(self) -> JsonValue:
        """The document as JSON holds it."""

    def locate(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at `path` or of its key.

        Of the last known part of a wrong path.
        """

    def written(self, path: Path) -> WrittenScalar | None:
        """How the text at `path` is written; None if there is none."""


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """One JSON value of a text, which starts at the character `start`."""

    text: str
    start: int
    value: JsonValue

    def locate(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """See Document. Walks the text again: errors are rare."""
        position = self._seek(path, key=key)[0]
        line_start = self.text.rfind("\n", 0, position) + 1
        return self.text.count("\n", 0, position) + 1, position - line_start + 1

    def written(self, path: Path) -> WrittenScalar | None:
        """See Document."""
        position, value = self._seek(path, key=False)
        if not isinstance(value, str):
            return None
        return WrittenScalar(self.text, position, decode_json(self.text, position)[1], '"')

    def _seek(self, path: Path, *, key: bool) -> tuple[int, JsonValue]:
        """Where the value at `path`, or its key, begins, and the value.

        Of a wrong path the last known part.
        """
        position, value = self.start, self.value
        for index, step in enumerate(path):
            found = _seek_member(self.text, position, value, step)
            if found is None:
                break
            position = found.key if key and index == len(path) - 1 else found.value
            value = found.holds
        return position, value


@dataclass(frozen=True, slots=True)
class _Member:
    """Where the key (or again the value, in a list) and the value stand."""

    key: int
    value: int
    holds: JsonValue


def read_documents(text: str, *, file: str | None, limits: TextLimits) -> Iterator[Document]:
    """The documents of a text of YAML or JSON.

    Raises InvalidManifest with line and column, LimitExceeded.
    """
    if len(text.encode("utf-8", "surrogatepass")) > limits.bytes_max:
        raise LimitExceeded(
            "the manifest is too large", limit="manifest_bytes_max", maximum=limits.bytes_max, place=Place(file=file)
        )
    text = text.removeprefix(_BYTE_ORDER_MARK)
    found = _read_json(text, file=file, limits=limits)
    return iter(found) if found is not None else read_yaml_documents(text, file=file, limits=limits)


def _read_json(text: str, *, file: str | None, limits: TextLimits) -> list[JsonDocument] | None:
    """All values if the text is JSON, else None.

    None lets the reader of YAML judge and name the place of what is wrong.

    Raises InvalidManifest if a second value follows the first, as YAML does not allow, and is wrong.
    """
    start = _skip_space(text, 0)
    try:
        first, end = _json_document(text, start, limits)
    except (ValueError, RecursionError):
        return None
    documents = [first]
    start = _skip_space(text, end)
    if start < len(text) and text[start] not in "{[":
        return None
    while start < len(text):
        try:
            document, end = _json_document(text, start, limits)
        except json.JSONDecodeError as error:
            place = Place(file=file, line=error.lineno, column=error.colno)
            raise InvalidManifest(f"not JSON: {error.msg}", place=place) from None
        except (ValueError, RecursionError) as error:
            line, column = JsonDocument(text, start, None).locate(())
            raise InvalidManifest(f"not JSON: {error}", place=Place(file=file, line=line, column=column)) from None
        documents.append(document)
        start = _skip_space(text, end)
    return documents


def _json_document(text: str, start: int, limits: TextLimits) -> tuple[JsonDocument, int]:
    value, end = decode_json(text, start)
    if not isinstance(value, dict | list):
        raise ValueError("expected an object or an array")
    check_json_value(value, depth_max=limits.depth_max, nodes_max=limits.nodes_max)
    return JsonDocument(text, start, value), end


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _seek_member(text: str, position: int, holds: JsonValue, step: str | int) -> _Member | None:
    """The member `step` of the array or object at `position`, in valid JSON."""
    if isinstance(holds, dict):
        known = isinstance(step, str) and step in holds
    else:
        known = isinstance(holds, list) and isinstance(step, int) and 0 <= step < len(holds)
    index = 0
    while known:
        key = at = _skip_space(text, position + 1)
        name: JsonValue = index
        if isinstance(holds, dict):
            name, end = decode_json(text, key)
            at = _skip_space(text, _skip_space(text, end) + 1)
        value, end = decode_json(text, at)
        if name == step:
            return _Member(key, at, value)
        index += 1
        position = _skip_space(text, end)
    return None

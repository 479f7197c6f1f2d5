"""The items of an array inside one JSON document.

Owns the walk along a sub-path `a.b.c` and the line on which each item begins. Invariant: the whole document is parsed as
strictly as a line is, what stands beside the path too. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.geojson import FEATURES, check_collection
from odfabric_engine_spark.ingest.json.json_forms import listed_names
from odfabric_engine_spark.ingest.json.json_values import JsonParser, JsonValue, kind_of

_JQ = ": take the array out before the push, as `jq '.[1]'` takes the second item of an array"
_NO_DOCUMENT = "`jq . FILE` finds such places; CSV is pushed as text/csv, and objects on lines of their own are NDJSON, application/x-ndjson"
_SPACES = re.compile(r"[ \t\r\n]*")


class JsonDocument:
    """A document; `items` may be called once."""

    def __init__(self, text: str, parser: JsonParser, *, file: str) -> None:
        self._text = text
        self._parser = parser
        self._file = file
        self._position = 0
        self._line = 1
        self._counted = 0

    def items(self, sub_path: str) -> Iterator[tuple[JsonValue, int, int]]:
        """Every item of the array at `sub_path`, its line and length.

        "" is the document itself. Raises InvalidData.
        """
        path = tuple(sub_path.split(".")) if sub_path else ()
        if not self._peek():
            return  # nothing but space is an empty input
        yield from self._at(path, sub_path)
        if self._peek():
            self._refuse("there is more after the end of the document")

    def features(self) -> Iterator[tuple[JsonValue, int, int]]:
        """Every item of a GeoJSON FeatureCollection, its line and length.

        Raises InvalidData.
        """
        if not self._peek():
            return
        if self._peek() != "{":
            value, line = self._value()
            raise InvalidData(
                f"Expected a FeatureCollection, but the document is {kind_of(value)}",
                place=Place(file=self._file, line=line),
                hint="features, one a line, are read by `kind: NdGeoJson`, application/x-ndgeojson",
            )
        kind: JsonValue = None
        has_type = found = False
        for key in self._keys():
            if key == FEATURES:
                found = True
                yield from self._array(FEATURES)
                continue
            value, line = self._value()
            if key == "type":
                kind, has_type = value, True
                check_collection(kind, has_type=True, place=Place(file=self._file, line=line))
        if self._peek():
            self._refuse("there is more after the end of the document")
        check_collection(kind, has_type=has_type, place=Place(file=self._file))
        if not found:
            self._not_found(FEATURES, "a FeatureCollection has its features in this member")

    def _at(self, path: tuple[str, ...], whole: str) -> Iterator[tuple[JsonValue, int, int]]:
        if not path:
            yield from self._array(whole)
            return
        if self._peek() != "{":
            value, _ = self._value()
            self._not_found(
                whole, f"before `{path[0]}` stands {kind_of(value)}, and a subPath leads through objects only{_JQ}"
            )
        found, others = False, list[str]()
        for key in self._keys():
            if key == path[0]:
                found = True
                yield from self._at(path[1:], whole)
            else:
                others.append(key)
                self._value()
        if not found:
            names = listed_names(others)
            self._not_found(
                whole, f"where `{path[0]}` should stand the document has {names}; an answer of an error has no rows"
            )

    def _array(self, whole: str) -> Iterator[tuple[JsonValue, int, int]]:
        if self._peek() != "[":
            value, _ = self._value()
            kind = kind_of(value)
            described = f"Sub-path does not specify an array: {whole}" if whole else "The document is not an array"
            raise InvalidData(
                f"{described}, it is {kind}",
                place=Place(file=self._file),
                hint="name one by subPath; objects on lines of their own are NDJSON: .ndjson, application/x-ndjson",
            )
        self._position += 1
        if self._peek() == "]":
            self._position += 1
            return
        while True:
            value, line = self._value()
            yield value, line, self._position - self._counted
            if self._separator("]"):
                return

    def _keys(self) -> Iterator[str]:
        """Keys of the object that begins here.

        The caller reads the value of each before asking for the next.
        """
        self._position += 1
        seen: set[str] = set()
        if self._peek() == "}":
            self._position += 1
            return
        while True:
            if self._peek() != '"':
                self._refuse("a key in quotes is missing")
            key, _ = self._value()
            if key in seen:
                self._refuse(f"the key {key!r} appears twice")
            seen.add(str(key))
            if self._peek() != ":":
                self._refuse("a colon is missing")
            self._position += 1
            yield str(key)
            if self._separator("}"):
                return

    def _separator(self, end: str) -> bool:
        character = self._peek()
        if character not in (",", end):
            self._refuse(f"a comma or `{end}` is missing")
        self._position += 1
        return character == end

    def _value(self) -> tuple[JsonValue, int]:
        self._peek()
        line = self._line_here()
        try:
            value, self._position = self._parser.parse_at(self._text, self._position)
        except ValueError as error:
            self._position = getattr(error, "pos", self._position)
            self._refuse(getattr(error, "msg", str(error)), getattr(error, "hint", None))
        return value, line

    def _peek(self) -> str:
        """Skips space; the next character, empty at the end."""
        spaces = _SPACES.match(self._text, self._position)
        self._position = spaces.end() if spaces else self._position
        return self._text[self._position : self._position + 1]

    def _line_here(self) -> int:
        passed = self._text[self._counted : self._position]
        self._line += passed.count("\n") + passed.count("\r") - passed.count("\r\n")
        self._counted = self._position
        return self._line

    def _not_found(self, whole: str, hint: str) -> NoReturn:
        raise InvalidData(f"Sub-path not found: {whole}", place=Place(file=self._file), hint=hint)

    def _refuse(self, reason: str, hint: str | None = None) -> NoReturn:
        place = Place(file=self._file, line=self._line_here())
        raise InvalidData(f"Not a JSON document: {reason}", place=place, hint=hint or _NO_DOCUMENT)

"""Reading untrusted YAML: the JSON subset, with line and column of everything.

Owns the refusals: tags, anchors and aliases, directives other than `%YAML 1.2`, keys that are not strings, repeated keys,
`.inf` and `.nan`, numbers that lose digits elsewhere, and whatever is above a limit. Scalars are those of the YAML 1.2 core
schema: `yes`, `1:30` and `2020-01-01` are strings. Invariant: any text gives documents, InvalidManifest or LimitExceeded.
Not here: what a document means (`formats.manifests.manifest_yaml`). Source: YAML 1.2.2, section 10.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from odfabric.errors import InvalidManifest, LimitExceeded, Place
from odfabric.formats.json_values.canonical_json import JSON_INT_MAX, JSON_INT_MIN, JsonValue
from odfabric.formats.manifests.scalar_places import WrittenScalar

Path: TypeAlias = Sequence[str | int]
"""From the top of a document to a value: keys and list indexes."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_INT_CHARACTERS_MAX = 64
_SHOWN_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class TextLimits:
    """How much text of a stranger is read: UTF-8 bytes, levels of nesting, values."""

    bytes_max: int
    depth_max: int
    nodes_max: int


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it starts; line and column count from 1.

    `keys` are the places of a map's keys.

    Of a scalar `end` is the index of the character behind it, and `style` how it is written.
    """

    value: JsonValue
    line: int
    column: int
    children: dict[str | int, Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    style: str | None = None


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a text."""

    node: Node
    text: str

    @property
    def value(self) -> JsonValue:
        """The document as JSON would hold it."""
        return self.node.value

    def locate(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Line and column of the value at `path`, or of its key.

        Of a path that leads nowhere, of its last known part.
        """
        node = self.node
        for index, step in enumerate(path):
            if key and index == len(path) - 1 and isinstance(step, str) and step in node.keys:
                return node.keys[step]
            if step not in node.children:
                break
            node = node.children[step]
        return node.line, node.column

    def written(self, path: Path) -> WrittenScalar | None:
        """How the scalar at `path` is written; None if there is none."""
        node = self.node
        for step in path:
            if step not in node.children:
                return None
            node = node.children[step]
        return None if node.children else WrittenScalar(self.text, node.start, node.end, node.style)


def read_yaml_documents(text: str, *, file: str | None, limits: TextLimits) -> Iterator[YamlDocument]:
    """The documents of a text, in order, lazily; empty ones are left out.

    Raises InvalidManifest, LimitExceeded.
    """
    composer = _Composer(text, file=file, limits=limits)
    for event in composer.events:
        if isinstance(event, DocumentStartEvent):
            composer.check_directives(event)
        elif isinstance(event, NodeEvent):
            node = composer.node(event, limits.depth_max)
            if node.value is not None:
                yield YamlDocument(node, text)


class _Composer:
    """Builds nodes from parser events without recursion: nesting exhausts nothing."""

    def __init__(self, text: str, *, file: str | None, limits: TextLimits) -> None:
        self._file = file
        self._limits = limits
        self._nodes_left = limits.nodes_max
        self.events = self._parse(text)

    def _parse(self, text: str) -> Iterator[Any]:
        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(file=self._file) if mark is None else self._place(mark)
            raise InvalidManifest(f"not YAML: {error.problem or error.context}", place=place) from None
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
            place = Place(file=self._file, line=line, column=column)
            code = error.character if isinstance(error.character, int) else ord(error.character)
            raise InvalidManifest(f"not YAML: the character U+{code:04X} is not allowed", place=place) from None
        except (YAMLError, ValueError, OverflowError) as error:
            raise InvalidManifest(f"not YAML: {error}", place=Place(file=self._file)) from None

    def _place(self, mark: Any) -> Place:
        return Place(file=self._file, line=mark.line + 1, column=mark.column + 1)

    def invalid(self, event: Any, message: str, *, hint: str | None = None) -> InvalidManifest:
        """The error at the start of an event."""
        return InvalidManifest(message, place=self._place(event.start_mark), hint=hint)

    def check_directives(self, event: Any) -> None:
        """Refuse documents that ask for another version of YAML or declare tags."""
        if event.version not in (None, (1, 2)) or event.tags:
            raise self.invalid(event, "only the directive %YAML 1.2 is supported")

    def node(self, event: Any, depth_left: int) -> Node:
        """The value that begins with this event, and everything inside it."""
        self._check_node(event, depth_left)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, ScalarEvent):
            start, end = event.start_mark.index, event.end_mark.index
            return Node(self._scalar(event), line, column, start=start, end=end, style=event.style)
        if isinstance(event, SequenceStartEvent):
            items = self._items(depth_left)
            return Node([item.value for item in items], line, column, dict(enumerate(items)))
        keys: dict[str, tuple[int, int]] = {}
        members: dict[str | int, Node] = {}
        for key, place, member in self._members(depth_left):
            keys[key], members[key] = place, member
        return Node({str(key): member.value for key, member in members.items()}, line, column, members, keys)

    def _check_node(self, event: Any, depth_left: int) -> None:
        if event.anchor is not None:
            raise self.invalid(event, "anchors and aliases are not supported", hint="write the value out")
        if event.tag is not None:
            raise self.invalid(event, f"tags are not supported: {event.tag[:_SHOWN_CHARACTERS_MAX]}")
        place = self._place(event.start_mark)
        if depth_left == 0:
            depth_max = self._limits.depth_max
            raise LimitExceeded("nested too deeply", limit="manifest_depth_max", maximum=depth_max, place=place)
        self._nodes_left -= 1
        if self._nodes_left < 0:
            nodes_max = self._limits.nodes_max
            raise LimitExceeded("too many values", limit="manifest_nodes_max", maximum=nodes_max, place=place)

    def _items(self, depth_left: int) -> list[Node]:
        items: list[Node] = []
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                break
            items.append(self.node(event, depth_left - 1))
        return items

    def _members(self, depth_left: int) -> Iterator[tuple[str, tuple[int, int], Node]]:
        seen: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                return
            key = self.node(event, depth_left - 1)
            if not isinstance(key.value, str):
                raise self.invalid(event, "a key must be a string", hint="put it in quotes")
            if key.value in seen:
                shown = key.value[:_SHOWN_CHARACTERS_MAX]
                raise self.invalid(event, f"the key `{shown}` occurs twice, first in line {seen[key.value]}")
            seen[key.value] = key.line
            yield key.value, (key.line, key.column), self.node(next(self.events), depth_left - 1)

    def _scalar(self, event: Any) -> JsonValue:
        text: str = event.value
        if event.style is not None:
            return self._string(event, text)
        if text in _NULLS:
            return None
        if text in _BOOLS:
            return _BOOLS[text]
        if _INT.fullmatch(text):
            return self._int(event, text)
        if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
            return self._float(event, text)
        return self._string(event, text)

    def _int(self, event: Any, text: str) -> int:
        number = int(text, 0 if text.startswith(("0o", "0x")) else 10) if len(text) <= _INT_CHARACTERS_MAX else math.inf
        if not JSON_INT_MIN <= number <= JSON_INT_MAX:
            raise self.invalid(event, f"an integer must be within {JSON_INT_MIN} to {JSON_INT_MAX}")
        return int(number)

    def _float(self, event: Any, text: str) -> float:
        number = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
        if not math.isfinite(number):
            raise self.invalid(event, f"{text[:_SHOWN_CHARACTERS_MAX]} is not a number that JSON can hold")
        return number

    def _string(self, event: Any, text: str) -> str:
        """The text with pairs of \\u escapes joined, as JSON has them."""
        try:
            return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self.invalid(event, "the text holds half of a surrogate pair") from None

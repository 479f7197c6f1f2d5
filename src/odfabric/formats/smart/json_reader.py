"""Read one JSON value that a peer has sent, naming what is wrong with it.

Owns the walk from a text to plain values. Invariant: every text gives values of the asked shape or one InvalidRequest with the place in it;
unknown members are passed over, as peers of newer versions may send some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from odfabric.errors import InvalidName, InvalidRequest, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.multihash import DIGEST_BYTES_MAX, SHA3_256, Multihash
from odfabric.model.transfer.smart import MESSAGE_BYTES_MAX

NUMBER_MAX = 2**63 - 1
ITEMS_MAX = 1_000_000
"""Longest list of anything but bytes."""

PLAIN_CHARACTERS_MAX = 16 * 1024 * 1024
"""Longest message of anything but bytes."""
_PIECE_CHARACTERS = 256 * 1024
_PAYLOAD = re.compile(r'"payload"\s*:\s*\[([0-9,\s]*)\]', re.ASCII)
_TAKEN_OUT = "bytes that were taken out"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it is, e.g. `Ok.object_transfer_strategies[3]`."""

    found: Any
    path: str = ""

    def member(self, name: str) -> Value:
        """A member of an object; null if it is absent."""
        if not isinstance(self.found, dict):
            raise self.refusal("an object is expected")
        return Value(self.found.get(name), f"{self.path}.{name}" if self.path else name)

    def variant(self) -> tuple[str, Value]:
        """Name and content of the only member."""
        if not isinstance(self.found, dict) or len(self.found) != 1:
            raise self.refusal("an object with one member is expected")
        (name,) = self.found
        return name, self.member(name)

    def items(self, *, maximum: int = ITEMS_MAX) -> list[Value]:
        """The values of a list."""
        if not isinstance(self.found, list):
            raise self.refusal("a list is expected")
        if len(self.found) > maximum:
            raise self.refusal(f"at most {maximum} items are read")
        return [Value(each, f"{self.path}[{number}]") for number, each in enumerate(self.found)]

    def text(self, *, maximum: int) -> str:
        """A text of at most `maximum` characters."""
        if not isinstance(self.found, str) or len(self.found) > maximum:
            raise self.refusal(f"a text of at most {maximum} characters is expected")
        return self.found

    def number(self) -> int:
        """A whole number that is not negative."""
        if type(self.found) is not int or not 0 <= self.found <= NUMBER_MAX:
            raise self.refusal(f"a whole number from 0 to {NUMBER_MAX} is expected")
        return self.found

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.found, bool):
            raise self.refusal("true or false is expected")
        return self.found

    def bytes(self) -> bytes:
        """Bytes as a list of their numbers."""
        if isinstance(self.found, bytes):
            return self.found
        if not isinstance(self.found, list) or not set(map(type, self.found)) <= {int}:
            raise self.refusal("a list of bytes is expected")
        try:
            return bytes(self.found)
        except (ValueError, OverflowError):
            raise self.refusal("a byte is a number from 0 to 255") from None

    def multihash(self) -> Multihash:
        """The hash of a block or an object."""
        return self.parsed(parse_object_hash, maximum=200)

    def parsed(self, parse: Callable[[str], T], *, maximum: int) -> T:
        """A text in a grammar of its own."""
        text = self.text(maximum=maximum)
        try:
            return parse(text)
        except (InvalidName, InvalidRequest) as error:
            raise self.refusal(error.message) from None

    def optional(self, read: Callable[[Value], T]) -> T | None:
        """None for null."""
        return None if self.found is None else read(self)

    def refusal(self, message: str) -> InvalidRequest:
        """The error that names the place of this value."""
        return InvalidRequest(message, place=Place(field=self.path or "message"))


def parse_object_hash(text: str) -> Multihash:
    """The SHA3-256 multihash that names an object. Raises InvalidName."""
    found = parse_multihash(text)
    if found.code != SHA3_256 or len(found.digest) != DIGEST_BYTES_MAX:
        raise InvalidName(f"'{found}' does not name an object", hint="objects are named by SHA3-256 multihashes")
    return found


def read_value(text: str) -> Value:
    """The JSON value of a message, in memory of a few times its length.

    Raises InvalidRequest.
    """
    if len(text) > MESSAGE_BYTES_MAX:
        raise InvalidRequest(f"a message has at most {MESSAGE_BYTES_MAX} characters", place=Place(field="message"))
    payload = None
    if len(text) > PLAIN_CHARACTERS_MAX:
        text, payload = _without_payload(text)

    def with_payload(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "payload": payload} if found.get("payload") == _TAKEN_OUT else found

    try:
        hook = None if payload is None else with_payload
        return Value(json.loads(text, parse_constant=_no_number, object_hook=hook))
    except (ValueError, RecursionError):
        raise InvalidRequest("the message is no JSON value", place=Place(field="message")) from None


def _without_payload(text: str) -> tuple[str, bytes]:
    """A long message with a mark instead of its bytes, and those.

    As a list of numbers they would take several times the memory of the text, and anything else that long some twenty times.
    """
    found = _PAYLOAD.search(text)
    start, end = found.span(1) if found is not None else (0, 0)
    if len(text) - (end - start) > PLAIN_CHARACTERS_MAX:
        raise InvalidRequest(
            f"a message has at most {PLAIN_CHARACTERS_MAX} characters besides the bytes of its payload",
            place=Place(field="message"),
        )
    try:
        payload = b"".join(_numbers(text, start, end))
    except ValueError:
        raise InvalidRequest("a byte is a number from 0 to 255", place=Place(field="payload")) from None
    return f'{text[: start - 1]}"{_TAKEN_OUT}"{text[end + 1 :]}', payload


def _numbers(text: str, start: int, end: int) -> Iterator[bytes]:
    """Bytes of a list of numbers, piece by piece. Raises ValueError."""
    while start < end:
        cut = text.find(",", min(start + _PIECE_CHARACTERS, end), end)
        piece = text[start : end if cut < 0 else cut]
        yield bytes(map(int, piece.split(",")))
        if cut == end - 1:
            raise ValueError("a number is missing")
        start = end if cut < 0 else cut + 1


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def written(value: object) -> str:
    """A message: JSON in ASCII without spaces."""
    return json.dumps(value, separators=(",", ":"))

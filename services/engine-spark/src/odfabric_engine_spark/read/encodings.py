"""Bytes of users as Unicode, strictly.

Owns which encodings are known and the place of bytes that are none. Invariant: no character is replaced or dropped; what
leaves here is a UTF-8 file without byte order mark, the input itself where it already is one.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odfabric.errors import InvalidData, InvalidManifest, Place

_CHUNK_BYTES = 1 << 20
_KNOWN = [
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "ascii",
    "iso8859-1",
    "iso8859-2",
    "iso8859-3",
    "iso8859-4",
    "iso8859-5",
    "iso8859-6",
    "iso8859-7",
    "iso8859-8",
    "iso8859-9",
    "iso8859-10",
    "iso8859-11",
    "iso8859-13",
    "iso8859-14",
    "iso8859-15",
    "iso8859-16",
    "cp1250",
    "cp1251",
    "cp1252",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "cp1257",
    "cp1258",
    "cp437",
    "cp850",
    "cp866",
    "koi8-r",
    "koi8-u",
    "mac-roman",
    "shift_jis",
    "euc_jp",
    "iso2022_jp",
    "gb2312",
    "gbk",
    "gb18030",
    "big5",
    "euc_kr",
]
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Utf8File:
    """A file that is UTF-8 throughout. `start` is where its text begins: behind the byte order mark, if it has one.

    `name` is what users call it; `special` are the characters asked for that occur in it.
    """

    path: Path
    name: str
    start: int
    size: int
    special: frozenset[str]

    @contextmanager
    def text(self) -> Iterator[io.TextIOWrapper]:
        """The text, line ends as they stand."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            yield io.TextIOWrapper(file, encoding="utf-8", newline="")


def known_encoding(name: str | None) -> str:
    """The name under which Python knows an encoding. Raises InvalidManifest for one that is not offered."""
    try:
        found = codecs.lookup(name or "utf-8").name
    except (LookupError, ValueError):
        found = ""
    if found not in {codecs.lookup(known).name for known in _KNOWN}:
        raise InvalidManifest(
            f"Encoding `{name}` is not known", place=Place(field="encoding"), hint=f"known: {', '.join(_KNOWN)}"
        )
    return found


def as_utf8(path: Path, name: str, *, encoding: str, scratch: Path, watched: str) -> Utf8File:
    """The file as UTF-8, written anew below `scratch` if it is something else; `watched` are characters to look for.

    Raises InvalidData with line and column for bytes that are not of the encoding.
    """
    if encoding == "utf-8":
        return _examined(path, name, watched)
    written = scratch / f"utf8-{path.name}"
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    with path.open("rb") as source, written.open("wb") as target:
        for text in _decoded(source, decoder, name, encoding):
            target.write(text.encode("utf-8"))
    return _examined(written, name, watched)


def _examined(path: Path, name: str, watched: str) -> Utf8File:
    found, size, start = set[str](), 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    with path.open("rb") as source:
        for text in _decoded(source, decoder, name, "utf-8"):
            if not size and text.startswith(_BOM):
                start = len(codecs.BOM_UTF8)
            size += len(text)
            found |= {character for character in watched if character in text}
    return Utf8File(path, name, start, path.stat().st_size - start, frozenset(found))


_OTHER_ENCODING = "name the file's encoding in the read step, or convert it"
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "a zip archive"}


def _hint(begin: bytes) -> str:
    """What to do about bytes that are no text, by the first of them."""
    packed = next((name for magic, name in _PACKED.items() if begin.startswith(magic)), None)
    return f"this is {packed}: unpack it (a polling source does that by `prepare`)" if packed else _OTHER_ENCODING


def _decoded(source: io.BufferedReader, decoder: codecs.IncrementalDecoder, name: str, encoding: str) -> Iterator[str]:
    line, last = 1, ""
    while True:
        chunk = source.read(_CHUNK_BYTES)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            before = last + error.object[: error.start].decode(encoding, "replace")
            raise InvalidData(
                f"Byte 0x{error.object[error.start]:02x} is not {encoding}",
                place=Place(file=name, line=line + _newlines(before), column=_column(before)),
                hint=_hint(error.object) if line == 1 and not last else _OTHER_ENCODING,
            ) from None
        if text:
            yield text
        if not chunk:
            return
        line += _newlines(text)
        last = text[-1:] if text[-1:] not in "\r\n" else ""


def _newlines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _column(before: str) -> int:
    return len(before) - max(before.rfind("\n"), before.rfind("\r"))

"""Bytes of users as Unicode, strictly.

Owns the place of bytes that are none; which encodings are known says `odfabric.formats.files.text_encodings`. Invariant: no character is replaced or dropped; what
leaves here is a UTF-8 file without byte order mark, the input itself where it already is one.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odfabric.errors import InvalidData, Place
from odfabric.formats.files.file_kinds import BEGIN_BYTES, binary_kind, wide_encoding
from odfabric.formats.files.text_encodings import check_encoding, encoding_name

UTF_8 = "utf-8"
_CHUNK_BYTES = 1 << 20
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Utf8File:
    """A file that is UTF-8 throughout.

    `start` is where its text begins: behind the byte order mark, if it has one.

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
    """The name under which Python knows an encoding.

    Raises InvalidManifest for one that is not offered.
    """
    if problem := check_encoding(name):
        raise problem
    return encoding_name(name) or UTF_8


def as_utf8(path: Path, name: str, *, encoding: str, scratch: Path, watched: str) -> Utf8File:
    """The file as UTF-8, written again below `scratch` if it is something else.

    `watched` are characters to look for.

    Raises InvalidData for a file that is no text, and with line and column for bytes that are not of the encoding.
    """
    _refuse_other_files(path, name, encoding)
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


def _refuse_other_files(path: Path, name: str, encoding: str) -> None:
    """Raises InvalidData for another kind of file that would decode as text.

    Some encodings would read it.
    """
    with path.open("rb") as source:
        begin = source.read(BEGIN_BYTES)
    place = Place(file=name, line=1)
    if kind := binary_kind(begin):
        raise InvalidData(f"The file is {kind.name}, not text", place=place, hint=kind.hint)
    wide = wide_encoding(begin)
    if wide is not None and not encoding.startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
        raise InvalidData(
            f"The file is text in {wide}, and read as {encoding}",
            place=place,
            hint=f"write `encoding: {wide}` in the read step, or convert it to UTF-8 (`iconv -f {wide} -t utf-8`)",
        )


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
                hint=_OTHER_ENCODING,
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

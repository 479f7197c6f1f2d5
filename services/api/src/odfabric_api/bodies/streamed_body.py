"""Bodies that are taken in as they arrive: raw, or as the file of a form."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from anyio import from_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from odfabric.errors import InvalidRequest, LimitExceeded, Place

FORM_DATA = "multipart/form-data"
FIELD_BYTES_MAX = 4096
"""Longest field, and longest head of a part, of a form with a file."""
FIELDS_MAX = 20
_BOUNDARY = re.compile(r"""boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))""", re.IGNORECASE)
_NAME = re.compile(r"""[;\s]name="([^"]*)\"""")
_FILE_NAME = re.compile(r"""[;\s]filename="([^"]*)\"""")
_STAR_NAME = re.compile(r"filename\*=UTF-8''([^\s;]+)", re.IGNORECASE)


def body_chunks(request: Request, *, bytes_max: int, limit: str = "push_body_bytes_max") -> Iterator[bytes]:
    """The body, pulled by the staging thread from the event loop that receives it.

    Raises LimitExceeded.

    At most a network buffer of it is in memory: the thread asks for the next piece when it has stored the last one.
    """
    announced = request.headers.get("content-length")
    if announced is not None and int(announced) > bytes_max:
        raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
    stream = request.stream()
    size = 0
    while True:
        chunk = from_thread.run(_next_chunk, stream)
        if chunk is None:
            return
        size += len(chunk)
        if size > bytes_max:
            raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
        yield chunk


def chunks_that_arrive(request: Request, *, bytes_max: int, limit: str) -> Iterator[bytes]:
    """The same, but a connection that breaks ends the body: what has arrived is good."""
    try:
        yield from body_chunks(request, bytes_max=bytes_max, limit=limit)
    except ClientDisconnect:
        return


async def _next_chunk(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


@dataclass(frozen=True, slots=True)
class SentFile:
    """An uploaded file: its name, the fields before it, and its bytes, read once."""

    name: str
    fields: dict[str, str]
    chunks: Iterator[bytes]


def sent_file(request: Request, *, fields: frozenset[str], bytes_max: int) -> SentFile:
    """The file of a form (`multipart/form-data`) or of a raw body.

    The Content-Disposition of a raw body names it. Runs in a thread, as `body_chunks`.

    Raises InvalidRequest for a broken form and for fields that it does not have, LimitExceeded.
    """
    kind = request.headers.get("content-type", "")
    chunks = body_chunks(request, bytes_max=bytes_max + FIELD_BYTES_MAX * FIELDS_MAX)
    if kind.partition(";")[0].strip().lower() == FORM_DATA:
        found = _BOUNDARY.search(kind)
        if found is None:
            raise _broken("it names no boundary")
        return form_file(chunks, found[1] or found[2], fields=fields)
    star = _STAR_NAME.search(request.headers.get("content-disposition", ""))
    return SentFile(unquote(star[1], errors="replace") if star else "", {}, chunks)


def form_file(chunks: Iterator[bytes], boundary: str, *, fields: frozenset[str]) -> SentFile:
    """The part `file` of a form, and the fields before it; nothing comes behind it.

    Raises InvalidRequest, also while the file is read.
    """
    parts = _Parts(chunks, boundary)
    given: dict[str, str] = {}
    while parts.begin():
        head = parts.head()
        name, file_name = _NAME.search(head), _FILE_NAME.search(head)
        if name is None:
            raise _broken("a part has no name")
        if name[1] == "file" and file_name is not None and file_name[1]:
            return SentFile(unquote(file_name[1], errors="replace"), given, parts.last())
        if name[1] == "file":
            break  # as browsers send it where none was chosen
        if name[1] not in fields or name[1] in given:
            raise InvalidRequest("the form has no such field", place=Place(field=name[1][:100]))
        given[name[1]] = parts.field()
    raise InvalidRequest("there is no file", place=Place(field="file"), hint="choose one")


class _Parts:
    """The parts of a form, one after the other.

    At most one chunk and one boundary of them are in memory.
    """

    def __init__(self, chunks: Iterator[bytes], boundary: str) -> None:
        self._chunks = chunks
        # The line end before a boundary belongs to it; before the first there may be none.
        self._text = b"\r\n"
        self._mark = b"\r\n--" + boundary.encode()

    def begin(self) -> bool:
        """Go to the next part, at the first call to the first one; whether there is one."""
        if self._short(self._mark):
            raise _broken("there is something before its first part")
        return self._is_open()

    def head(self) -> str:
        """The headers of the part."""
        return b" ".join([b";", self._short(b"\r\n\r\n")]).decode(errors="replace")

    def field(self) -> str:
        """The value of the part, whose end is left to be found."""
        text = self._short(self._mark)
        self._text = self._mark + self._text
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise _broken("a field is not UTF-8") from None

    def last(self) -> Iterator[bytes]:
        """The bytes of the part, behind which there is no other."""
        yield from self._until(self._mark)
        is_open = self._is_open()
        while len(self._text) < FIELD_BYTES_MAX and self._more():
            continue
        if is_open or self._text.strip():
            raise _broken("there is something behind the file")

    def _is_open(self) -> bool:
        while len(self._text) < 2 and self._more():
            continue
        sign, self._text = self._text[:2], self._text[2:]
        if sign not in (b"\r\n", b"--"):
            raise _broken("a boundary is cut off")
        return sign == b"\r\n"

    def _short(self, mark: bytes) -> bytes:
        found = bytearray()
        for piece in self._until(mark):
            found += piece
            if len(found) > FIELD_BYTES_MAX:
                raise LimitExceeded("a field is too long", limit="form_field_bytes_max", maximum=FIELD_BYTES_MAX)
        return bytes(found)

    def _until(self, mark: bytes) -> Iterator[bytes]:
        while (at := self._text.find(mark)) < 0:
            kept = len(mark) - 1
            ready, self._text = self._text[:-kept], self._text[-kept:]
            if ready:
                yield ready
            if not self._more():
                raise _broken("it is cut off")
        ready, self._text = self._text[:at], self._text[at + len(mark) :]
        if ready:
            yield ready

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._text += chunk
        return chunk is not None


def _broken(why: str) -> InvalidRequest:
    return InvalidRequest(f"the body is no form with a file: {why}", place=Place(field="body"))

"""Unpacking sources: gzip members and single zip entries, streamed, with limits.

Owns the refusals: sizes and ratios while the bytes come (what an archive says of itself is not believed), links, special and
encrypted entries, methods that cannot be unpacked in bounded memory, checksums. Invariant: names of entries are compared and shown,
never used as paths; one call unpacks one level and nothing nested. Source: docs/threat-model.md.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, BinaryIO, NoReturn

from odfabric.adapters.local_fs.new_file import new_file, regular_file
from odfabric.errors import Determinate, InvalidData, LimitExceeded, Place
from odfabric.formats.files.file_kinds import BEGIN_BYTES, GZIP, ZIP, FileKind, unlike_archive

_PIECE_BYTES = 64 * 1024
_RATIO_COUNTS_FROM_BYTES = 1024 * 1024
"""Below this an unpacked size harms nobody, whatever its ratio."""
_DIRECTORY_BYTES_PER_ENTRY = 512
_DIRECTORY_BYTES_MIN = 1024 * 1024
_SUB_PATH_CHARACTERS_MAX = 1024
_LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_NAMES_SHOWN_MAX = 20
_NAME_CHARACTERS_SHOWN_MAX = 100
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_ENCRYPTED = 0x1 | 0x40 | 0x2000
"""Flag bits of a zip entry: encrypted, strongly encrypted, local headers masked."""
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, ValueError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Sizes in bytes; ratio of unpacked to packed size.

    Entries of an archive; bytes of a file that is only copied.
    """

    unpacked_bytes_max: int = 10 * 1024**3
    unpack_ratio_max: int = 1000
    archive_entries_max: int = 10_000
    source_bytes_max: int = 64 * 1024**3


class ArchivePreparation:
    """A SourcePreparation."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits

    def decompress_gzip(self, source: Path, into: Path) -> None:
        """See the port.

        Padding with zeros after a member is allowed, anything else there is not.
        """
        place = Place(file=source.name)
        with regular_file(source) as packed, new_file(into) as sink:
            meter = _Meter(self._limits, place)
            try:
                _gunzip(packed, sink, meter, members_max=self._limits.archive_entries_max)
            except (zlib.error, EOFError) as error:
                raise _broken(packed, GZIP, f"not a whole gzip file: {error}", place) from None

    def decompress_zip(self, source: Path, into: Path, *, sub_path: str | None) -> None:
        """See the port."""
        place = Place(file=source.name)
        if sub_path is not None and len(sub_path) > _SUB_PATH_CHARACTERS_MAX:
            raise LimitExceeded(
                "the subPath is too long", limit="sub_path_characters_max", maximum=_SUB_PATH_CHARACTERS_MAX
            )
        with regular_file(source) as packed, self._opened(packed, place) as archive:
            entry = _selected(archive.infolist(), sub_path, place)
            _check_entry(entry, place)
            with new_file(into) as sink, _unbroken(place), archive.open(entry) as stream:
                self._unpack(entry, stream, sink, place)

    def copy(self, source: Path, into: Path) -> None:
        """See the port. Raises Determinate if the file changes while it is read."""
        with regular_file(source) as file, new_file(into) as sink:
            before = os.fstat(file.fileno())
            size = 0
            while piece := file.read(_PIECE_BYTES):
                size += len(piece)
                if size > self._limits.source_bytes_max:
                    raise LimitExceeded(
                        "the source is too large",
                        limit="source_bytes_max",
                        maximum=self._limits.source_bytes_max,
                        place=Place(file=source.name),
                    )
                sink.write(piece)
            after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
                raise Determinate(
                    f"{source.name} changed while it was read", hint="put finished files there by renaming"
                )

    @contextmanager
    def _opened(self, packed: BinaryIO, place: Place) -> Iterator[zipfile.ZipFile]:
        entries_max = self._limits.archive_entries_max
        bounded = _BoundedReads(packed, max(_DIRECTORY_BYTES_MIN, entries_max * _DIRECTORY_BYTES_PER_ENTRY))
        try:
            try:
                archive = zipfile.ZipFile(bounded)
            except (*_BROKEN, _OutOfFile) as error:
                raise _broken(packed, ZIP, f"not a whole zip file: {error}", place) from None
        except _ReadTooLarge:
            raise self._too_many(place) from None
        with archive:
            if len(archive.infolist()) > entries_max:
                raise self._too_many(place)
            yield archive

    def _too_many(self, place: Place) -> LimitExceeded:
        return LimitExceeded(
            "the archive has too many entries",
            limit="archive_entries_max",
            maximum=self._limits.archive_entries_max,
            place=place,
        )

    def _unpack(self, entry: zipfile.ZipInfo, stream: IO[bytes], sink: BinaryIO, place: Place) -> None:
        meter = _Meter(self._limits, place)
        meter.packed = entry.compress_size
        while piece := stream.read(_PIECE_BYTES):
            meter.unpack(len(piece))
            sink.write(piece)
        if meter.unpacked != entry.file_size:
            raise InvalidData(
                f"entry {_shown(entry.filename)} has {meter.unpacked} bytes, {entry.file_size} are declared",
                place=place,
            )


class _Meter:
    """Counts packed and unpacked bytes of one unpacking and stops it at the limits."""

    def __init__(self, limits: ArchiveLimits, place: Place) -> None:
        self._limits = limits
        self._place = place
        self.packed = 0
        self.unpacked = 0

    def unpack(self, count: int) -> None:
        """`count` more bytes came out. Raises LimitExceeded."""
        self.unpacked += count
        limits = self._limits
        if self.unpacked > limits.unpacked_bytes_max:
            self._refuse("the unpacked file is too large", "unpacked_bytes_max", limits.unpacked_bytes_max)
        if self.unpacked > max(limits.unpack_ratio_max * self.packed, _RATIO_COUNTS_FROM_BYTES):
            self._refuse("the archive is packed too tightly", "unpack_ratio_max", limits.unpack_ratio_max)

    def _refuse(self, message: str, limit: str, maximum: int) -> NoReturn:
        raise LimitExceeded(message, limit=limit, maximum=maximum, place=self._place)


def _gunzip(packed: BinaryIO, sink: BinaryIO, meter: _Meter, *, members_max: int) -> None:
    """Raises zlib.error, EOFError, LimitExceeded.

    Members without content are counted: they cost time and give nothing.
    """
    member: zlib._Decompress | None = None
    empty = ended = began_at = 0
    while data := packed.read(_PIECE_BYTES):
        meter.packed += len(data)
        while data:
            if member is None:
                data = data.lstrip(b"\0") if ended else data
                if not data:
                    break
                member, began_at = zlib.decompressobj(_GZIP_WINDOW), meter.unpacked
            _emit(member.decompress(data, _PIECE_BYTES), sink, meter)
            data = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member, ended = None, ended + 1
                empty += meter.unpacked == began_at
                if empty > members_max:
                    raise zlib.error(f"more than {members_max} empty members")
    while member is not None and (piece := member.decompress(b"", _PIECE_BYTES)):
        _emit(piece, sink, meter)
    if not (ended or member) or (member is not None and not member.eof):
        raise EOFError("the end is missing")


def _emit(piece: bytes, sink: BinaryIO, meter: _Meter) -> None:
    meter.unpack(len(piece))
    sink.write(piece)


def _selected(entries: list[zipfile.ZipInfo], sub_path: str | None, place: Place) -> zipfile.ZipInfo:
    files = [entry for entry in entries if not entry.filename.endswith("/")]
    if sub_path is None:
        fitting = [entry for entry in files if not _is_litter(entry.filename)] or files
    else:
        fitting = [entry for entry in files if entry.filename == sub_path]
        fitting = fitting or [entry for entry in files if fnmatchcase(entry.filename, sub_path)]
    if len(fitting) == 1:
        return fitting[0]
    if sub_path is None:
        problem = f"the archive has {len(fitting)} files" if fitting else "the archive has no files"
    else:
        problem = f"{len(fitting)} entries fit {sub_path!r}" if fitting else f"the archive has no entry {sub_path!r}"
    raise InvalidData(
        f"{problem}; it has {_listed(fitting or entries)}",
        place=place,
        hint="set subPath of the Decompress step to one of them, or to a pattern that fits one, as *.csv",
    )


def _is_litter(name: str) -> bool:
    """What file managers pack along with the only file that a person packs."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] in _LITTER


def _check_entry(entry: zipfile.ZipInfo, place: Place) -> None:
    # The upper half is the file mode where the archive was made on Unix; elsewhere its type bits are zero.
    kind = stat.S_IFMT(entry.external_attr >> 16)
    problem = None
    if kind not in (0, stat.S_IFREG):
        problem = "a link" if kind == stat.S_IFLNK else "no regular file"
    elif entry.flag_bits & _ENCRYPTED:
        problem = "encrypted"
    elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = f"packed by method {entry.compress_type}; only stored and deflated entries are read"
    if problem:
        raise InvalidData(f"entry {_shown(entry.filename)} is {problem}", place=place)


def _listed(entries: list[zipfile.ZipInfo]) -> str:
    shown = ", ".join(_shown(entry.filename) for entry in entries[:_NAMES_SHOWN_MAX])
    more = len(entries) - _NAMES_SHOWN_MAX
    return (shown or "nothing") + (f" and {more} more" if more > 0 else "")


def _shown(name: str) -> str:
    return repr(name[:_NAME_CHARACTERS_SHOWN_MAX])


def _broken(packed: BinaryIO, archive: FileKind, message: str, place: Place) -> InvalidData:
    """The refusal of a file that cannot be unpacked: its real kind, or its fault."""
    packed.seek(0)
    other = unlike_archive(packed.read(BEGIN_BYTES), archive)
    if other is None:
        return InvalidData(message, place=place, hint="fetch or send it again; a download may have ended early")
    return InvalidData(f"The file is {other.name}, and not {archive.name}", place=place, hint=other.hint)


@contextmanager
def _unbroken(place: Place) -> Iterator[None]:
    """Whatever the zip reader stumbles over is the archive's fault."""
    try:
        yield
    except (*_BROKEN, _OutOfFile) as error:
        raise InvalidData(f"not a whole zip file: {error}", place=place) from None


class _ReadTooLarge(Exception):
    """A single read of more bytes than any directory of an allowed archive has."""


class _OutOfFile(OSError):
    """A seek that the file would refuse too; some of these the zip reader expects."""


class _BoundedReads:
    """A file with bounded single reads.

    The zip reader takes the whole directory at once, of whatever size is declared.
    """

    def __init__(self, file: BinaryIO, bytes_max: int) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._size = os.fstat(file.fileno()).st_size
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Raises _OutOfFile for a place outside the file: offsets come from the archive."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._file.tell(), os.SEEK_END: self._size}[whence]
        if not 0 <= start + offset <= self._size:
            raise _OutOfFile("an offset leads out of the file")
        return self._file.seek(start + offset)

    def read(self, size: int = -1, /) -> bytes:
        """Raises _ReadTooLarge."""
        data = self._file.read(size if 0 <= size <= self._bytes_max else self._bytes_max + 1)
        if len(data) > self._bytes_max:
            raise _ReadTooLarge
        return data

"""Kinds of files that are no text, by their first bytes.

Owns the names by which refusals call a file of another kind than it is read as, and what its owner can do. Invariant: no text that
somebody means as data is taken for one of these; each mark has bytes that texts do not have, or is followed by some.
"""

from __future__ import annotations

from dataclasses import dataclass

BEGIN_BYTES = 4096
"""How much of a file says what it is."""

_TABLE_OUT_OF = "save or export its table as CSV, UTF-8"


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is, as in "The file is ..", and the way out."""

    name: str
    hint: str


GZIP = FileKind(
    "packed by gzip",
    "unpack it before the push; a polling source unpacks by `prepare: [{kind: Decompress, format: Gzip}]`",
)
ZIP = FileKind(
    "a zip archive",
    "unpack it before the push; a polling source unpacks by `prepare: [{kind: Decompress, format: Zip, subPath: 'name-*.csv'}]`;"
    " a shapefile in an archive is read by `kind: EsriShapefile`, application/vnd.shp",
)
_WORKBOOK = FileKind(
    "a document of Office, such as .xlsx", f"{_TABLE_OUT_OF} (Excel: Save As, CSV UTF-8), and read that"
)
_OPEN_DOCUMENT = FileKind("an OpenDocument file", f"{_TABLE_OUT_OF}, and read that")
_PARQUET = FileKind(
    "Parquet", "read it by `kind: Parquet` in the read step, and push it as application/vnd.apache.parquet"
)
_OTHERS = {
    b"\x1f\x8b": GZIP,
    b"%PDF-": FileKind("a PDF", "ask its publisher for the table as CSV, or take the table out by a program"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": FileKind(
        "a document of old Office, such as .xls", f"{_TABLE_OUT_OF}, and read that"
    ),
    b"BZh": FileKind("packed by bzip2", "unpack it by `bzip2 -d` before it is read"),
    b"\xfd7zXZ\x00": FileKind("packed by xz", "unpack it by `xz -d` before it is read"),
    b"\x28\xb5\x2f\xfd": FileKind("packed by Zstandard", "unpack it by `zstd -d` before it is read"),
    b"7z\xbc\xaf\x27\x1c": FileKind("a 7z archive", "unpack it before it is read"),
    b"Rar!\x1a\x07": FileKind("a RAR archive", "unpack it before it is read"),
    b"SQLite format 3\x00": FileKind(
        "a database of SQLite", "export the rows of a table: `sqlite3 -header -csv FILE 'SELECT * FROM t'`"
    ),
    b"Obj\x01": FileKind("Avro", "convert it to Parquet or NDJSON"),
    b"ARROW1\x00\x00": FileKind("an Arrow file", "write it as Parquet"),
    b"\x00\x00\x27\x0a": FileKind(
        "a part of a shapefile",
        "pack .shp, .shx, .dbf, .prj and .cpg into a zip archive, read by `kind: EsriShapefile`",
    ),
}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_UTF_16, _UTF_32 = (b"\xff\xfe", b"\xfe\xff"), (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_NULS_SHARE = 0.4
_BYTES_MIN = 8


def binary_kind(begin: bytes) -> FileKind | None:
    """The kind of a file that begins so and is no text in any encoding.

    None if nothing is known of it.
    """
    if begin.startswith(_ZIP):
        if b"xl/workbook" in begin or b"[Content_Types].xml" in begin:
            return _WORKBOOK
        return _OPEN_DOCUMENT if b"application/vnd.oasis.opendocument" in begin[:128] else ZIP
    if begin.startswith(b"PAR1") and (b"\x00" in begin[4:64] or not begin[4:64].isascii()):
        return _PARQUET
    if begin.startswith(b"BZh") and begin[4:10] != b"\x31\x41\x59\x26\x53\x59":
        return None
    return next((kind for mark, kind in _OTHERS.items() if begin.startswith(mark)), None)


def wide_encoding(begin: bytes) -> str | None:
    """The 2- or 4-byte encoding that a text seems to have by its start, else None."""
    if begin.startswith(_UTF_32):
        return "utf-32"
    if begin.startswith(_UTF_16):
        return "utf-16"
    if len(begin) < _BYTES_MIN:
        return None
    even, odd = begin[0::2].count(0) / len(begin[0::2]), begin[1::2].count(0) / len(begin[1::2])
    if odd > _NULS_SHARE and not even:
        return "utf-16-le"
    return "utf-16-be" if even > _NULS_SHARE and not odd else None


def unlike_archive(begin: bytes, archive: FileKind) -> FileKind | None:
    """What a file seems to be that should be an archive of some kind.

    None if it begins as one does.
    """
    found = binary_kind(begin)
    if found is archive or (archive is ZIP and found in (_WORKBOOK, _OPEN_DOCUMENT)):
        return None
    if found is not None:
        return found
    if begin.lstrip()[:64].lower().startswith((b"<!doctype html", b"<html")):
        return FileKind(
            "an HTML page", "open its address in a browser: servers answer so to sign-ins, errors and moved files"
        )
    return FileKind("of another kind", "if it is not packed, leave the step Decompress out of `prepare`")

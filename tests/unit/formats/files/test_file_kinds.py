"""Files that are no text are named by their first bytes; no text is mistaken."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.files.file_kinds import GZIP, ZIP, binary_kind, unlike_archive, wide_encoding


def archive(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        for name in names:
            files.writestr(name, "x")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("begin", "name", "hint"),
    [
        (gzip.compress(b"id\n1\n", mtime=0), "packed by gzip", "format: Gzip"),
        (archive("a.csv"), "a zip archive", "format: Zip"),
        (archive("[Content_Types].xml", "xl/workbook.xml"), "a document of Office, such as .xlsx", "CSV"),
        (archive("docs/xl.csv"), "a zip archive", "unpack"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF", "CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "a document of old Office, such as .xls", "CSV"),
        (b"PAR1\x15\x04\x15\x10\x00\x00", "Parquet", "kind: Parquet"),
        (b"SQLite format 3\x00\x10", "a database of SQLite", "sqlite3"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "packed by Zstandard", "zstd -d"),
        (b"BZh91AY&SY\x00", "packed by bzip2", "bzip2 -d"),
    ],
)
def test_files_that_are_no_text_have_a_name_and_a_way_out(begin: bytes, name: str, hint: str) -> None:
    kind = binary_kind(begin)
    assert kind is not None
    assert kind.name == name
    assert hint in kind.hint


@pytest.mark.parametrize("text", ["PAR1,PAR2\n1,2\n", "BZh,Obj\n", "PK,id\n1,2\n", "Rar!,SQLite format 3\n", ""])
def test_headers_that_look_like_marks_are_text(text: str) -> None:
    assert binary_kind(text.encode()) is None


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])))
def test_no_text_without_control_characters_is_taken_for_another_file(text: str) -> None:
    kind = binary_kind(text.encode())
    assert kind is None or text.startswith("%PDF-")
    assert wide_encoding(text.encode()) is None


@given(
    text=st.text(st.characters(min_codepoint=1, max_codepoint=255), min_size=8),
    encoding=st.sampled_from(["utf-16-le", "utf-16-be"]),
)
def test_texts_of_two_bytes_a_character_are_seen(text: str, encoding: str) -> None:
    assert wide_encoding(text.encode(encoding)) == encoding
    assert wide_encoding(("\ufeff" + text).encode(encoding)) == "utf-16"


def test_what_is_no_archive_is_named() -> None:
    assert unlike_archive(gzip.compress(b"x"), GZIP) is None
    assert unlike_archive(archive("xl/workbook.xml"), ZIP) is None
    assert (page := unlike_archive(b"\n<!DOCTYPE HTML><p>", ZIP)) is not None
    assert page.name == "an HTML page"
    assert unlike_archive(archive("a"), GZIP) is ZIP
    assert (plain := unlike_archive(b"id\n1\n", GZIP)) is not None
    assert "leave the step Decompress out" in plain.hint

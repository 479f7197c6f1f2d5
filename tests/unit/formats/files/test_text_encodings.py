"""Names of encodings: which are read, and suggestions for others."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.files.text_encodings import KNOWN_ENCODINGS, check_encoding, encoding_name


@pytest.mark.parametrize("name", KNOWN_ENCODINGS)
def test_every_name_of_the_list_is_read(name: str) -> None:
    assert check_encoding(name) is None
    found = encoding_name(name)
    assert found is not None
    assert "a,b\n".encode(found).decode(found) == "a,b\n"


@pytest.mark.parametrize(
    ("name", "found"),
    [(None, "utf-8"), ("", "utf-8"), ("UTF8", "utf-8"), ("Latin-1", "iso8859-1"), ("windows-1252", "cp1252")],
)
def test_usual_names_are_known(name: str | None, found: str) -> None:
    assert encoding_name(name) == found


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ANSI", "cp1252"),
        ("Windows-31J", "cp932"),
        ("utf-8-sig", "utf-8"),
        ("iso-8859-12", "iso8859-1"),
        ("cp 1252", "cp1252"),
    ],
)
def test_a_close_name_is_suggested(name: str, instead: str) -> None:
    problem = check_encoding(name, field="read.encoding")
    assert problem is not None
    assert problem.place.field == "read.encoding"
    assert name in problem.message
    assert problem.hint is not None
    assert f"`{instead}`" in problem.hint


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "idna", "punycode", "a\0b", "unicode_escape"])
def test_other_codecs_are_no_encodings(name: str) -> None:
    problem = check_encoding(name)
    assert problem is not None
    assert problem.hint is not None
    assert "known: utf-8" in problem.hint


@given(st.text(max_size=20))
def test_a_name_is_refused_or_known_to_python(name: str) -> None:
    found = encoding_name(name)
    assert (found is None) == (check_encoding(name) is not None)
    if found is not None:
        assert codecs.lookup(found).name == found

"""Headers that do not fit: which difference is named, and which way out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords
from odfabric_engine_spark.ingest.csv.csv_header import ABSENT, BOM, Header, excel_note, repeated_row
from odfabric_engine_spark.ingest.csv.csv_row_counts import wrong_count
from odfabric_engine_spark.ingest.encodings import Utf8File, as_utf8


def file_of(folder: Path, text: str) -> Utf8File:
    (folder / "f").write_bytes(text.encode())
    return as_utf8(folder / "f", "f", encoding="utf-8", scratch=folder, watched="")


def header(
    folder: Path,
    text: str,
    wanted: list[str] | None,
    *,
    separator: str = ",",
    declared: bool = True,
    optional: frozenset[str] | None = None,
) -> Header:
    file, dialect = file_of(folder, text), CsvDialect(separator=separator, quote='"', escape="\\")
    with file.text() as stream:
        first = next(iter(CsvRecords(stream, dialect, file="f", value_characters_max=1000)))
    return Header(
        file=file,
        cells=first,
        wanted=wanted,
        declared=declared,
        dialect=dialect,
        line_characters_max=1000,
        others_left_out=optional is not None,
        optional=optional or frozenset(),
    )


def refusal(folder: Path, text: str, wanted: list[str] | None, **options: object) -> InvalidData:
    with pytest.raises(InvalidData) as caught:
        header(folder, text, wanted, **options).order()  # type: ignore[arg-type]
    assert caught.value.place.line is not None
    assert caught.value.hint is not None
    return caught.value


NAMES = st.lists(st.text("abcXYZ_ 1é", min_size=1, max_size=4), min_size=1, max_size=6, unique=True)


@given(names=NAMES, data=st.data())
def test_names_are_found_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(names))
    found = header(tmp_path_factory.mktemp("csv"), ",".join(shuffled) + "\n1\n", names).order()
    assert [shuffled[at] for at in found] == names


@given(names=NAMES, other=NAMES)
def test_other_names_are_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], other: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    if set(names) == set(other):
        return
    error = refusal(folder, ",".join(other) + "\n9\n", names)
    text = f"{error.message} {error.hint}"
    assert any(f"`{name}`" in text for name in set(names) ^ set(other))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ID,Name", "upper and lower case only"),
        (" id,name ", "spaces around them only"),
        ("ID, name", "upper and lower case and spaces around them only"),
        ("Id,na-me", "upper and lower case and spaces or other signs within only"),
        ("id,\u00a0name", "spaces around them only"),
    ],
)
def test_names_that_are_nearly_alike(tmp_path: Path, line: str, kind: str) -> None:
    assert kind in refusal(tmp_path, line + "\n1,a\n", ["id", "name"]).message


def test_columns_that_came_and_went(tmp_path: Path) -> None:
    came = refusal(tmp_path, "id,name,extra\n", ["id", "name"])
    assert came.message == "The header names `extra`, which the schema has not"
    assert "set-source" in str(came.hint)
    went = refusal(tmp_path, "id\n", ["id", "name"])
    assert went.message == "The header lacks `name`"
    assert "set-source" in str(went.hint)
    assert "first row is data" not in f"{came.hint} {went.hint}"
    assert "header: false" in str(refusal(tmp_path, "1,2\n", ["id", "name"]).hint)


def test_bad_names(tmp_path: Path) -> None:
    for text, column, word in (
        (",id\n", 1, "index=False"),
        ("id,\n", 4, "ends with a separator"),
        ("id,,v\n", 4, "header: false"),
        ("v,v\n", 3, "once"),
    ):
        for wanted in (["id", "v"], None):
            error = refusal(tmp_path, text, wanted)
            assert (error.place.line, error.place.column) == (1, column)
            assert word in str(error.hint)


@pytest.mark.parametrize("above", ["A title\n", '"A, title",\n\n', "# one\n# two\n", ";;;\n", "a,b\n" * 99])
def test_lines_above_the_header(tmp_path: Path, above: str) -> None:
    line = above.count("\n") + 1
    error = refusal(tmp_path, f"{above}id,v\n1,a\n", ["v", "id"])
    assert f"the header stands in line {line}" in error.message
    assert ("comment" in error.message) == above.startswith("#")
    assert "from_csv" in str(error.hint)


def test_a_header_far_below_is_not_looked_for(tmp_path: Path) -> None:
    assert "stands in line" not in refusal(tmp_path, "a,b\n" * 101 + "id,v\n", ["id", "v"]).message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<!DOCTYPE html>\n<html>\n", "HTML"),
        ("\n  <html lang='en'>\n", "HTML"),
        ("<!-- x --><html>\n", "HTML"),
        ("<?xml version='1.0'?>\n", "XML"),
    ],
)
def test_other_kinds_of_files(tmp_path: Path, text: str, word: str) -> None:
    assert word in refusal(tmp_path, text, ["id", "v"]).message
    assert word in refusal(tmp_path, text, None).message
    dialect = CsvDialect(separator=",", quote='"', escape=None)
    first = header(tmp_path, text, None).cells
    assert word in wrong_count(file_of(tmp_path, text), first, 2, dialect, header=False).message


def test_json_and_other_separators(tmp_path: Path) -> None:
    assert "JSON" in refusal(tmp_path, '[{"id":1}]\n', ["id"]).message
    error = refusal(tmp_path, "id;v\n1;a\n", ["id", "v"])
    assert "separator: ';'" in str(error.hint)
    assert 'separator: "\\t"' in str(refusal(tmp_path, "id\tv\n", ["id", "v"]).hint)


def test_the_note_of_spreadsheets(tmp_path: Path) -> None:
    for text in ("sep=;\na;b\n", '"sep=;"\na;b\n'):
        error = refusal(tmp_path, text, ["a", "b"], separator=";")
        assert "sep=;" in error.message
        assert "remove the first line" in str(error.hint)
    assert excel_note(file_of(tmp_path, "sep=;\n")) is not None
    assert excel_note(file_of(tmp_path, "separator=;\n")) is None


@given(
    rows=st.lists(st.lists(st.sampled_from(["a", "b", "", None, BOM + "a"]), min_size=2, max_size=2), max_size=8),
    null=st.sampled_from(["", "b"]),
)
def test_a_second_header_is_found(rows: list[list[str | None]], null: str) -> None:
    texts = [[None if cell == null else cell for cell in row] for row in rows]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[at] for row in texts], pa.string()) for at in range(2)], ["c0", "c1"]
    )
    wanted = [None if name == null else name for name in ("a", "b")]
    found = [at for at, row in enumerate(texts) if row[0] in (wanted[0], BOM + "a") and row[1] == wanted[1]]
    assert repeated_row(batch, ["a", "b"], null=null) == (found[0] if found else None)


def test_a_table_of_one_column_may_repeat_its_name() -> None:
    assert repeated_row(pa.RecordBatch.from_pydict({"c0": ["a", "a"]}), ["a"], null="") is None


@pytest.mark.parametrize(
    ("row", "columns", "word"),
    [
        ("1,2,3,", 3, "ends with a separator"),
        ("1,2,3", 1, "title"),
        ("1;2;3", 3, "';'"),
        ("1,2,3,4", 3, "quote"),
        ("1,2", 3, "every column"),
        ("Total", 3, "no data"),
    ],
)
def test_rows_of_other_lengths(tmp_path: Path, row: str, columns: int, word: str) -> None:
    found = header(tmp_path, row + "\n", None)
    error = wrong_count(found.file, found.cells, columns, found.dialect, header=True)
    assert error.message.startswith("The row has ")
    assert word in str(error.hint).replace('in "', "in quotes")


@pytest.mark.parametrize(
    "text",
    [
        "-- MySQL dump 10.13\n--\nDROP TABLE IF EXISTS `t`;\n",
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n",
        "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\n",
        "INSERT INTO t (id) VALUES (1),(2);\n",
        "COPY public.t (id, name) FROM stdin;\n1\ta\n",
    ],
)
def test_a_dump_is_named_also_where_no_columns_are_known(tmp_path: Path, text: str) -> None:
    error = refusal(tmp_path, text, None)
    assert "dump of SQL" in error.message
    assert "CSV HEADER" in (error.hint or "")


@pytest.mark.parametrize("text", ["--,id\n1,2\n", "set,id\n1,2\n", "CREATE,TABLE\n1,2\n", "--\n1\n"])
def test_names_that_are_words_of_sql_are_names(tmp_path: Path, text: str) -> None:
    assert header(tmp_path, text, None).order() == list(range(text.count(",") // 2 + 1))


@pytest.mark.parametrize(
    ("text", "separator"), [("a;b\nx;1\n", "';'"), ("a\tb\r\nx\t1\r\n", '"\\t"'), ("a|b\n\n1|2\n", "'|'")]
)
def test_one_column_that_another_separator_cuts_is_several(tmp_path: Path, text: str, separator: str) -> None:
    error = refusal(tmp_path, text, None)
    assert f"separator: {separator}" in (error.hint or "")


@pytest.mark.parametrize("text", ["a;b\nx\n", "a\nx;1\n", '"a;b"\nx;1\n', "a;b\n", "a;b,c\nx;1,2\n", "name\n"])
def test_one_column_with_other_signs_is_one(tmp_path: Path, text: str) -> None:
    assert header(tmp_path, text, None).order() == list(range(1 + ("," in text)))


@given(names=NAMES, others=NAMES, data=st.data())
def test_optional_names_may_be_absent(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], others: list[str], data: st.DataObject
) -> None:
    there = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    absent = frozenset(names) - frozenset(there)
    new = [f"new {index}" for index, _ in enumerate(others)]
    folder = tmp_path_factory.mktemp("csv")
    found = header(folder, ",".join([*new, *there]) + "\n", names, optional=absent).order()
    shown = [*new, *there]
    assert [None if at == ABSENT else shown[at] for at in found] == [name if name in there else None for name in names]
    if absent:
        refusal(folder, ",".join(there) + "\n", names, optional=frozenset())


def test_a_header_of_other_names_alone_is_no_file_of_before(tmp_path: Path) -> None:
    every = frozenset({"id", "name"})
    for text in ("title\n", "id;name\n", "id,Name\n"):
        refusal(tmp_path, text, ["id", "name"], optional=every)
    other = refusal(tmp_path, "id;name\n", ["id", "name", "grown"], optional=frozenset({"grown"}))
    assert "separator: ';'" in (other.hint or "")

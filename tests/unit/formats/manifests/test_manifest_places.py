"""From a place within a query to the place in the manifest that holds it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema, InvalidManifest, InvalidQuery, Place
from odfabric.formats.manifests.manifest_documents import read_documents
from odfabric.formats.manifests.manifest_places import PlacedSnapshot
from odfabric.formats.manifests.manifest_yaml import MANIFEST_LIMITS, parse_placed_snapshots
from odfabric.formats.manifests.yaml_writer import dump_yaml

HEAD = """\
kind: DatasetSnapshot
version: 1
content:
  name: totals
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{datasetRef: trades}]
    transform:
      kind: Sql
      engine: spark
"""
# Each form of writing text, and where its WRONG stands. The query begins in line 12 or 13.
WRITTEN = {
    "literal": ("query: |\n  SELECT a,\n\n    WRONG FROM t\n", (15, 11)),
    "literal with a hint": ("query: |2-  # two\n    SELECT a,\n   WRONG\n", (14, 10)),
    "folded": ("query: >-\n  SELECT a,\n  b,\n  WRONG FROM t\n", (15, 9)),
    "folded with more indented lines": ("query: >\n  SELECT a,\n     b,\n\n  WRONG FROM t\n", (16, 9)),
    "plain": ("query: SELECT a, WRONG FROM t\n", (12, 24)),
    "plain over lines": ("query: SELECT a,\n  b, WRONG\n  FROM t\n", (13, 12)),
    "single quotes": ("query: 'SELECT ''a'', WRONG FROM t'\n", (12, 29)),
    "double quotes": ('query: "SELECT \\"a\\",\\n\\u00e9\\t, WRONG FROM t"\n', (12, 40)),
    "double quotes over lines": ('query: "SELECT a,\\\n  b,\n  WRONG FROM t"\n', (14, 9)),
}


def placed(query: str) -> PlacedSnapshot:
    lines = "".join(f"      {line}\n" if line else "\n" for line in query.removesuffix("\n").split("\n"))
    (found,) = parse_placed_snapshots(HEAD + lines, file="totals.yaml")
    return found


def query_of(found: PlacedSnapshot, step: int = 0) -> str:
    transform = found.snapshot.metadata[-1].transform  # type: ignore[union-attr]
    query = transform.query if transform.query is not None else transform.queries[step].query  # type: ignore[union-attr]
    assert query is not None
    return query


def place_within(query: str, word: str) -> tuple[int, int]:
    offset = query.index(word)
    return query.count("\n", 0, offset) + 1, offset - (query.rfind("\n", 0, offset) + 1) + 1


@pytest.mark.parametrize(("written", "place"), WRITTEN.values(), ids=list(WRITTEN))
def test_a_word_of_a_query_is_found_in_the_file(written: str, place: tuple[int, int]) -> None:
    found = placed(written)
    line, column = place_within(query_of(found), "WRONG")
    assert found.place_of(0, line, column) == Place(file="totals.yaml", line=place[0], column=place[1])


def test_the_end_of_a_query_stands_behind_its_last_word() -> None:
    found = placed("query: |\n  SELECT\n    a FROM\n\n")
    assert query_of(found) == "SELECT\n  a FROM\n"
    for line, column in ((2, 9), (3, 1)):
        assert found.place_of(0, line, column) == Place(file="totals.yaml", line=14, column=17)


def test_a_place_that_the_query_does_not_have_is_told_by_its_first_line() -> None:
    found = placed("query: |\n\n  SELECT 1\n")
    for line, column in ((None, None), (1, None), (9, 1), (2, 99), (0, 1)):
        assert found.place_of(0, line, column) == Place(file="totals.yaml", line=14)


def test_a_pair_of_escapes_is_no_place_that_is_told_for_sure() -> None:
    found = placed("query: \"SELECT '\\ud83d\\ude00', WRONG\"")
    assert found.place_of(0, 1, 13) == Place(file="totals.yaml", line=12)


def test_each_statement_has_its_own_place() -> None:
    found = placed("queries:\n- alias: s\n  query: SELECT 1\n- query: |\n    SELECT WRONG\n")
    assert found.place_of(0, 1, 8) == Place(file="totals.yaml", line=14, column=23)
    assert found.place_of(1, 1, 8) == Place(file="totals.yaml", line=16, column=18)
    assert found.place_of(2, 1, 8) == Place(file="totals.yaml")


def test_the_last_transform_of_the_last_document_is_meant() -> None:
    another = HEAD + "      query: SELECT 1\n"
    two = another + another[another.index("  - kind: SetTransform") :]
    found = parse_placed_snapshots(f"{another}---\n{two}", file="two.yaml")
    assert [each.place_of(0, 1, 8).line for each in found] == [12, 31]


@pytest.mark.parametrize("indent", [None, 2])
def test_json_has_places_too(indent: int | None) -> None:
    (document,) = read_documents(HEAD, file=None, limits=MANIFEST_LIMITS)
    assert isinstance(document.value, dict)
    (event,) = document.value["content"]["metadata"]  # type: ignore[call-overload, index]
    event["transform"]["query"] = 'SELECT "é", WRONG\nFROM t'  # type: ignore[call-overload, index]
    text = json.dumps([document.value], indent=indent)
    (found,) = parse_placed_snapshots(text, file="totals.json")
    assert found.place_of(0, 1, 13) == Place(
        file="totals.json", line=place_within(text, "WRONG")[0], column=place_within(text, "WRONG")[1]
    )


def test_a_refusal_names_the_file_and_the_query() -> None:
    found = placed("query: |\n  SELECT rand()\n")
    with pytest.raises(InvalidQuery) as refused, found.refusals_in_file():
        raise InvalidQuery("no chance", place=Place(field="transform.queries[0]", line=1, column=8, rule="random"))
    assert str(refused.value) == (
        "totals.yaml, line 13, column 16, field transform.queries[0], rule random, query line 1, query column 8: no chance"
    )
    elsewhere = Place(field="preprocess", line=1, column=8)
    with pytest.raises(InvalidQuery) as refused, found.refusals_in_file():
        raise InvalidQuery("no chance", place=elsewhere)
    assert refused.value.place == elsewhere


SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: trades
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read: {kind: Csv}
    merge: {kind: Append}
    preprocess:
      kind: Sql
      engine: spark
      queries:
      - alias: s
        query: SELECT 1
      - query: |
          SELECT WRONG
"""


def test_what_a_source_does_first_has_its_own_places() -> None:
    (found,) = parse_placed_snapshots(SOURCE, file="trades.yaml")
    for source, step, place in ((0, 1, (18, 18)), (0, 0, (16, 23)), (0, 2, None), (1, 0, None)):
        asked = Place(field=f"metadata[{source}].preprocess.queries[{step}]", line=1, column=8)
        told = found.in_file(asked)
        assert (told.line, told.column) == (place or (None, None))
        assert (told.file, told.query_line, told.query_column) == ("trades.yaml", 1, 8)


# --- law: whatever way a text is written --------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab',\"\\#:|>- \n\té€😀{}[]&*!%@`"), min_size=1, max_size=40)


@given(TEXTS, st.sampled_from(["yaml", "json", "ascii", "single"]), st.data())
def test_a_character_is_found_where_it_is_written(text: str, form: str, data: st.DataObject) -> None:
    match form:
        case "yaml":
            source = dump_yaml({"deep": [{"query": text}]})
        case "single" if "\n" not in text and "\t" not in text:
            source = "deep:\n- query: '" + text.replace("'", "''") + "'\n"
        case _:
            source = json.dumps({"deep": [{"query": text}]}, ensure_ascii=form == "ascii")
    (document,) = read_documents(source, file=None, limits=MANIFEST_LIMITS)
    written = document.written(("deep", 0, "query"))
    assert written is not None
    offset = data.draw(st.integers(0, len(text) - 1))
    found = written.locate(text, *place_within_at(text, offset))
    if found is None or text[offset].isspace():
        assert form == "ascii" or text[offset].isspace()
        return
    line = source.split("\n")[found[0] - 1][found[1] - 1 :]
    escaped = json.dumps(text[offset], ensure_ascii=form == "ascii")[1:-1]
    assert line.startswith((text[offset], escaped))


def place_within_at(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def test_a_refusal_of_an_event_names_its_line() -> None:
    found = placed("query: SELECT 1\n")
    for error, field, begins in [
        (InvalidManifest, "metadata[0]", "kind: SetTransform"),
        (InvalidManifest, "metadata[0].inputs", "inputs:"),
        (IncompatibleSchema, "city", "name: totals"),
        (InvalidManifest, None, "name: totals"),
    ]:
        with pytest.raises(error) as refused, found.refusals_in_file():
            raise error("not so", place=Place(field=field))
        place = refused.value.place
        assert (place.file, place.field) == ("totals.yaml", field)
        assert place.line is not None
        assert HEAD.splitlines()[place.line - 1].lstrip(" -").startswith(begins)
    with pytest.raises(InvalidManifest) as refused, found.refusals_in_file():
        raise InvalidManifest("not so", place=Place(file="other.yaml", line=3))
    assert refused.value.place == Place(file="other.yaml", line=3)

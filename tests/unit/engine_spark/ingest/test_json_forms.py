"""JSON without rows is refused as what it is, with the right kind or line."""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.json_document import JsonDocument
from odfabric_engine_spark.ingest.json.json_forms import bad_line, no_declared_field, no_row
from odfabric_engine_spark.ingest.json.json_values import JsonParser, JsonValue

PLACE = Place(file="f", line=3)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("{", "the object does not end on its line", "jq -c"),
        ('{ "id": 1,', "the object does not end on its line", "jq -c"),
        ("[", "the array does not end on its line", "`kind: Json`"),
        ('[{"id": 1},', "the array does not end on its line", "application/json"),
        ('{"id": 1},', "Extra data", "nothing stands between lines"),
        ("}", "Expecting value", "nothing stands between lines"),
        ('{"id": NaN}', "NaN is not a JSON value", '"NaN"'),
        ("{'id': 1}", "double quotes", "double quotes"),
        ('{"id": 1} {"id": 2}', "Extra data (character 11)", "one value is on each line"),
        ('\ufeff{"id": 1}', "Expecting value", "byte order mark"),
        ('\x1e{"id": 1}', "Expecting value", "U+001E"),
    ],
)
def test_a_line_that_is_no_value(text: str, message: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r".") as broken:
        JsonParser(exact_numbers=False, depth_max=9).parse(text)
    refusal = bad_line(broken.value, text, PLACE)
    assert message in refusal.message
    assert hint in (refusal.hint or "")
    assert refusal.place == PLACE


@pytest.mark.parametrize(
    ("value", "line", "message", "hint"),
    [
        (None, True, "this is null", "tombstone"),
        ([{"id": 1}], True, "this is an array", "application/json"),
        ([1, "a"], True, "this is an array", "names"),
        ([1, "a"], False, "this is an array", "CSV"),
        ([{"id": 1}], False, "this is an array", "jq '.[1]'"),
        (5, True, "the number 5", "member of an object"),
        ("x", False, "the text 'x'", "member of an object"),
        (True, False, "true or false", "member of an object"),
    ],
)
def test_a_value_that_is_no_row(value: JsonValue, line: bool, message: str, hint: str) -> None:
    refusal = no_row(value, PLACE, line=line)
    assert refusal.message.startswith("A row must be an object")
    assert message in refusal.message
    assert hint in (refusal.hint or "")
    assert refusal.place == PLACE


def test_a_row_within_an_envelope_is_named() -> None:
    refusal = no_declared_field({"schema": {"type": "struct"}, "payload": {"id": 1}}, PLACE)
    assert "`schema`, `payload`" in refusal.message
    assert "write payload.name" in (refusal.hint or "")
    assert "set-source" in (no_declared_field({"a": 1}, PLACE).hint or "")


@pytest.mark.parametrize(
    ("text", "sub_path", "hint"),
    [
        ('{"success": false, "error": {}}', "result.records", "`success`, `error`"),
        ('{"result": {"rows": []}}', "result.records", "where `records` should stand the document has `rows`"),
        ('[{"page": 1}, [{"id": 1}]]', "1", "jq '.[1]'"),
        ("id,n\na,1\n", "", "text/csv"),
        ('{"id": 1}\n{"id": 2}\n', "id", "NDJSON"),
    ],
)
def test_a_document_without_rows_says_what_it_has(text: str, sub_path: str, hint: str) -> None:
    document = JsonDocument(text, JsonParser(exact_numbers=False, depth_max=9), file="f")
    with pytest.raises(InvalidData) as caught:
        list(document.items(sub_path))
    assert hint in (caught.value.hint or "")

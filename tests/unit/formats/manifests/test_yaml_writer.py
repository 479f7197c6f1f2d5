"""Writing YAML: manifest style, and everything reads back the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.json_values.canonical_json import JSON_INT_MAX, JSON_INT_MIN, JsonValue
from odfabric.formats.manifests.yaml_documents import TextLimits, read_yaml_documents
from odfabric.formats.manifests.yaml_writer import KEY_CHARACTERS_MAX, dump_yaml

LIMITS = TextLimits(bytes_max=1 << 24, depth_max=64, nodes_max=10**6)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(JSON_INT_MIN, JSON_INT_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.text(alphabet=" ab-?:,[]{}#&*!|>'\"%@`\t\n\r.0y1~=<é\u2028\x85\ufeff😀", max_size=12),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)


def read(text: str) -> list[JsonValue]:
    return [document.value for document in read_yaml_documents(text, file=None, limits=LIMITS)]


def test_style() -> None:
    value: JsonValue = {
        "kind": "Sql",
        "queries": [{"alias": "x", "query": "select *\nfrom t"}, {"query": "select 1\n"}],
        "empty": {"list": [], "map": {}},
        "matrix": [[1, 2], ["a"]],
        "time": "2020-01-01T12:00:00.5Z",
        "flags": [True, None, 1.5, "true", "1.0", "no", "", "a: b", "a #b", "- x", "2020-01-01", "it's"],
    }
    assert dump_yaml(value) == (
        "kind: Sql\n"
        "queries:\n"
        "- alias: x\n"
        "  query: |-\n"
        "    select *\n"
        "    from t\n"
        "- query: |\n"
        "    select 1\n"
        "empty:\n"
        "  list: []\n"
        "  map: {}\n"
        "matrix:\n"
        "- - 1\n"
        "  - 2\n"
        "- - a\n"
        "time: 2020-01-01T12:00:00.5Z\n"
        "flags:\n"
        "- true\n"
        "- null\n"
        "- 1.5\n"
        "- 'true'\n"
        "- '1.0'\n"
        "- 'no'\n"
        "- ''\n"
        "- 'a: b'\n"
        "- 'a #b'\n"
        "- '- x'\n"
        "- '2020-01-01'\n"
        "- it's\n"
    )


@given(VALUES)
def test_what_is_written_reads_back(value: JsonValue) -> None:
    found = read(dump_yaml([value]))
    assert repr(found) == repr([[value]])


@pytest.mark.parametrize("length", [KEY_CHARACTERS_MAX, KEY_CHARACTERS_MAX + 1, 5000])
@pytest.mark.parametrize("member", [1, "a\nb", {"x": [1]}, [{"x": 1}, 2], [], {}])
def test_long_keys_read_back(length: int, member: JsonValue) -> None:
    value: JsonValue = {"outer": [{"\x7f" * length: member, "b": 2}]}
    assert read(dump_yaml(value)) == [value]


@given(st.lists(st.text(alphabet="a \n\t", max_size=8)))
def test_texts_of_several_lines_read_back(texts: list[str]) -> None:
    value: JsonValue = {"texts": list(texts), "one": "\n".join(texts)}
    assert read(dump_yaml(value)) == [value]

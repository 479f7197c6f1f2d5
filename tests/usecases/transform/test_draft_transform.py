"""A query's inputs are the datasets it names, not names that occur in it."""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidRequest, LimitExceeded
from odfabric.model.identity import DatasetAlias, Name
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.transform.draft_transform import draft_transform, named_inputs
from odfabric.wiring.composed.drafts import DraftVerbs
from tests.usecases.manifests import ROOT


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> MemoryNode:
    found = MemoryNode(tmp_path_factory.mktemp("node"))
    for name in ("city", "a.b", "big-one"):
        found.add(ROOT.replace("name: readings", f"name: {name}"))
    return found


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM `local/city`", ["local/city"]),
        ("SELECT city FROM `a.b` JOIN big-one USING (x)", ["a.b", "big-one"]),
        ("select * from city, `local/a.b`", ["city", "local/a.b"]),
        ('SELECT * FROM "local/city"', ["local/city"]),
        ("SELECT 'from city', `value` FROM `a.b`", ["a.b"]),
        ('SELECT "from city" FROM `a.b` -- join city\n/* `city` */', ["a.b"]),
        ("SELECT 'it\\'s `city`' FROM `a.b`", ["a.b"]),
        ("SELECT * FROM `city` UNION ALL SELECT * FROM `city`", ["city"]),
        ("SELECT * FROM `local/nothing`", []),
        ("SELECT * FROM `CITY`", ["CITY"]),
        ("SELECT '`city`", []),
        ("/* `city`", []),
        ("", []),
    ],
)
def test_inputs_are_what_the_query_names(memory: MemoryNode, sql: str, names: list[str]) -> None:
    found = named_inputs(sql, memory.node.seen_by(memory.node.operator))
    assert [each.alias for each in found] == names
    assert all(each.dataset_ref.startswith("local/") for each in found)


def test_a_query_without_inputs_and_one_that_is_too_long_are_refused(memory: MemoryNode) -> None:
    name = DatasetAlias(None, Name("x"))
    repository = memory.node.seen_by(memory.node.operator)
    with pytest.raises(InvalidRequest, match="names no dataset"):
        draft_transform(name, "SELECT 1", repository=repository, text_bytes_max=100)
    with pytest.raises(LimitExceeded):
        draft_transform(name, "SELECT * FROM `city`", repository=repository, text_bytes_max=10)


def test_a_draft_is_created_as_it_was_judged(memory: MemoryNode) -> None:
    node, subject = memory.node, memory.node.operator
    snapshot = DraftVerbs(node).draft(DatasetAlias(None, Name("drafted")), "SELECT * FROM `local/city`", by=subject)
    assert DraftVerbs(node).judge(snapshot, by=subject).operator_class == "linear"
    entry, _ = node.datasets.create(snapshot, subject)
    assert [str(each.entry.alias) for each in node.browsing.describe(entry, by=subject).inputs if each.entry] == [
        "local/city"
    ]

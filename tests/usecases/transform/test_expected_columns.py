"""Columns of datasets without data: declared or derived ones, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import InvalidQuery
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import QueryProblem, ValidateRequest, ValidateResult
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.transform import expected_columns
from odfabric.usecases.transform.judge_transform import snapshot_request
from tests.usecases.manifests import DERIVED, POLLED, ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, row

SYSTEM = ["offset", "op", "system_time", "event_time"]
SECOND = """  - kind: AddPushSource
    sourceName: second
    read:
      kind: NdJson
      schema:
        fields:
        - {name: event_time, type: Timestamp}
        - {name: %s, type: String}
        - {name: value, type: {kind: Option, inner: Int64}}
    merge: {kind: Append}
"""


class ListeningEngine(MemoryEngine):
    """Keeps each judged input's columns, and refuses inputs that have some."""

    def __init__(self, exchange_root: Path) -> None:
        super().__init__(exchange_root)
        self.heard: list[list[str] | None] = []
        self.refused = {"wrong"}

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        (one,) = request.inputs
        names = None if one.data_schema is None else [each.name for each in one.data_schema.fields]
        self.heard.append(names)
        if names is not None and self.refused & {*names}:
            problem = QueryProblem(message="wrong is not right", rule="unknown", hint=None, step=0, line=1, column=1)
            return ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())
        return super().validate_query(request)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    found = MemoryNode(tmp_path)
    found.use_engine(ListeningEngine(found.folder / "exchange"))
    return found


def engine_of(memory: MemoryNode) -> ListeningEngine:
    engine = memory.node.ports.engine
    assert isinstance(engine, ListeningEngine)
    return engine


def heard(memory: MemoryNode) -> list[list[str] | None]:
    return engine_of(memory).heard


def expected(memory: MemoryNode, entry: CatalogEntry) -> list[str] | None:
    found = memory.node.datasets.expected_columns().of(entry, memory.node.repository.current(entry.id)[1])
    return None if found is None else [each.name for each in found.fields]


def over(name: str, of: str) -> str:
    return DERIVED.replace("readings", of).replace("name: copied", f"name: {name}")


def test_a_query_is_judged_over_what_the_source_of_its_input_declares(memory: MemoryNode) -> None:
    memory.add(ROOT)
    memory.add(DERIVED)
    assert heard(memory) == [[*SYSTEM, "city", "value"]]


def test_over_a_polling_source_too(memory: MemoryNode) -> None:
    memory.add(POLLED)
    memory.add(over("copied", "polled"))
    assert heard(memory) == [[*SYSTEM, "city"]]


def test_through_derivatives_without_data(memory: MemoryNode) -> None:
    memory.add(ROOT)
    memory.add(DERIVED)
    memory.add(over("further", "copied"))
    assert heard(memory)[-1] == [*SYSTEM, "city", "value"]
    (snapshot,) = parse_snapshots(over("further", "readings"), file="test.yaml")
    memory.node.editing.set_transform(snapshot, memory.node.operator)
    assert heard(memory)[-1] == [*SYSTEM, "city", "value"]


def test_a_manifest_of_what_has_not_run_is_judged_like_a_new_one(memory: MemoryNode) -> None:
    root, copied = memory.add(ROOT), memory.add(DERIVED)
    node = memory.node
    (snapshot,) = parse_snapshots(DERIVED, file="test.yaml")

    def asked() -> tuple[bool, list[str]]:
        request = snapshot_request(
            snapshot, repository=node.repository, described={}, expected=node.datasets.expected_columns().of
        )
        (one,) = request.inputs
        assert one.data_schema is not None
        return request.previous is not None, [each.name for each in one.data_schema.fields]

    assert asked() == (False, [*SYSTEM, "city", "value"])
    push(memory, root, row(1, "Kyiv"))
    pull(memory, copied)
    assert asked() == (True, [*SYSTEM, "city", "value"])


def test_what_is_refused_is_not_created(memory: MemoryNode) -> None:
    memory.add(ROOT.replace("name: city", "name: wrong"))
    with pytest.raises(InvalidQuery, match="wrong is not right"):
        memory.add(DERIVED)
    assert [str(each.alias) for each in memory.node.datasets.page(after=None, limit=10)] == ["local/readings"]


def test_a_dataset_whose_own_query_is_refused_says_nothing(memory: MemoryNode) -> None:
    memory.add(ROOT)
    copied = memory.add(DERIVED)
    assert expected(memory, copied) == [*SYSTEM, "city", "value"]
    engine_of(memory).refused = {"city"}
    assert expected(memory, copied) is None


@pytest.mark.parametrize(("column", "known"), [("city", True), ("town", False)])
def test_several_sources_have_to_agree(memory: MemoryNode, column: str, *, known: bool) -> None:
    entry = memory.add(ROOT + SECOND % column)
    assert expected(memory, entry) == ([*SYSTEM, "city", "value"] if known else None)


def test_a_source_that_declares_nothing_is_not_known(memory: MemoryNode) -> None:
    start, end = ROOT.index("      schema:"), ROOT.index("    merge:")
    memory.add(ROOT[:start] + ROOT[end:])
    memory.add(DERIVED)
    memory.add(over("further", "copied"))
    assert heard(memory)[0] is None
    assert heard(memory)[-1] is None


def test_only_so_many_are_asked(memory: MemoryNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_columns, "DATASETS_MAX", 2)
    memory.add(ROOT)
    memory.add(DERIVED)
    further = memory.add(over("further", "copied"))
    assert expected(memory, further) is None

"""`odf why` on a node: what it shows, and answers of other nodes that it checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.cli.provenance.why_check import check_answer, read_answer
from odfabric.cli.provenance.why_command import present_offsets
from odfabric.cli.provenance.why_text import why_rows, why_tree
from odfabric.errors import InvalidRequest
from odfabric.model.why_request import WhyRequest
from tests.services.api.test_why import derived, filled

__all__ = ["derived", "filled"]


@pytest.fixture
def answer(backend: NodeBackend, filled: str, client: httpx.Client) -> dict[str, Any]:
    return backend.why("copied", WhyRequest(offsets=(1,), columns=("city",), values=True))


def test_an_answer_is_a_tree(answer: dict[str, Any]) -> None:
    lines = list(why_tree(answer))
    assert lines[0].startswith("local/copied 1 +A  event_time=")
    assert "  verified: the query over these rows alone gives it, minimal" in lines
    assert "  city from city (copied)" in lines
    assert "  was added because of a: 1 row (1)" in lines
    assert "  made of a: 1 row (1)" in lines
    assert lines[-2].startswith("    local/readings 1 +A  event_time=")
    assert lines[-1].startswith("      ingested by block ")


def test_an_answer_is_a_table(answer: dict[str, Any]) -> None:
    first, root = why_rows(answer)
    assert (first["dataset"], first["offset"], first["behind"]) == ("local/copied", 1, "a: 1 row (1) [verified]")
    assert (root["depth"], root["behind"]) == (1, "ingested: record 2 of the 3 of what was pushed in this block")


def wrong_of(backend: NodeBackend, answer: dict[str, Any]) -> list[str]:
    return [f"{one.name}: {one.message}" for one in check_answer(backend, answer) if one.message is not None]


def test_an_answer_is_checked_elsewhere(answer: dict[str, Any], backend: NodeBackend, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    checked = list(check_answer(backend, read_answer(str(path))))
    assert [(one.name, one.message) for one in checked] == [("local/copied 1", None), ("local/readings 1", None)]


def block_of_another(answer: dict[str, Any]) -> None:
    answer["records"][1]["block"]["hash"] = "f1620" + "0" * 64


def other_value(answer: dict[str, Any]) -> None:
    answer["records"][0]["values"]["city"] = "Z"


def value_less(answer: dict[str, Any]) -> None:
    del answer["records"][1]["values"]["city"]


def other_witness(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["witnesses"][0]["ranges"] = [[0, 1]]


def no_witness(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["witnesses"] = []


def no_trigger(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["trigger"] = []


def no_cell(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["cells"] = []


def other_role(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["cells"][0]["role"] = "computed"


def other_query(answer: dict[str, Any]) -> None:
    answer["records"][0]["why"]["queries"] = ["SELECT 1"]


def other_source(answer: dict[str, Any]) -> None:
    answer["records"][1]["end"]["source"] = {"kind": "odf/etag", "sourceName": "other", "value": "x"}


def correction(answer: dict[str, Any]) -> None:
    answer["records"][0]["corrects"] = 0


def other_operation(answer: dict[str, Any]) -> None:
    answer["records"][1]["op"] = "retract"


def no_root(answer: dict[str, Any]) -> None:
    del answer["records"][1]


def nothing(answer: dict[str, Any]) -> None:
    answer["records"] = []


def unknown_offset(answer: dict[str, Any]) -> None:
    answer["records"][1]["offset"] = 99


def unknown_dataset(answer: dict[str, Any]) -> None:
    answer["records"][1]["dataset"] = "did:odf:fed01" + "0" * 64


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (block_of_another, "local/readings 1: its block is f16200"),
        (other_value, "local/copied 1: its row is city=Z there, city=B here"),
        (value_less, "local/readings 1: its row is "),
        (other_witness, "local/copied 1: its rows are a: 1 row (0) there, a: 1 row (1) here"),
        (no_witness, "local/copied 1: its rows are none there, a: 1 row (1) here"),
        (no_trigger, "local/copied 1: it was triggered by none there, a: 1 row (1) here"),
        (no_cell, "local/copied 1: the cell city of record 1 of input 0 is copied for city here, not there"),
        (other_role, "local/copied 1: the cell city of record 1 of input 0 is "),
        (other_query, "local/copied 1: `queries` is ['SELECT 1'] there"),
        (other_source, "local/readings 1: its source is "),
        (correction, "local/copied 1: it is about the record 0 there, None here"),
        (other_operation, "local/readings 1: it is retract there, append here"),
        (no_root, "local/readings 1: the record 1 names it, and the answer leaves it out"),
        (nothing, "local/copied 1: it was asked for, and the answer does not have it"),
        (unknown_offset, "local/readings 99: it cannot be checked here: "),
        (unknown_dataset, "it cannot be checked here: "),
    ],
)
def test_what_was_changed_in_an_answer_is_named(
    tamper: Callable[[dict[str, Any]], None], named: str, answer: dict[str, Any], backend: NodeBackend
) -> None:
    tamper(answer)
    assert any(named in each for each in wrong_of(backend, answer)), wrong_of(backend, answer)


def test_what_nothing_leads_to_is_named(answer: dict[str, Any], backend: NodeBackend) -> None:
    other = backend.why("copied", WhyRequest(offsets=(0,), columns=("city",), values=True))["records"]
    answer["records"] += other
    assert wrong_of(backend, answer) == ["local/copied 0: nothing in the answer leads to it"]


@pytest.mark.parametrize(
    "asked",
    [
        WhyRequest(offsets=(0, 1, 2), values=True, effort="minimal"),
        WhyRequest(offsets=(1,), kinds=("trigger",)),
        WhyRequest(offsets=(1,), kinds=("witnesses",), depth="0", effort="lineage"),
    ],
)
def test_every_way_to_ask_can_be_checked(asked: WhyRequest, backend: NodeBackend, filled: str) -> None:
    assert wrong_of(backend, backend.why("copied", asked)) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"dataset": "a", "asked": [1], "records": [{}]}', '{"dataset": 1, "asked": [], "records": []}'],
)
def test_what_is_no_answer_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match="is no answer"):
        read_answer(str(path))


def test_rows_that_are_there_now_are_those_no_withdrawal_has_taken() -> None:
    ops = ((0, 0, "a"), (1, 0, "a"), (2, 1, "a"), (3, 0, "b"), (4, 2, "b"), (5, 3, "c"), (6, 1, "d"))
    rows = [{"offset": offset, "op": op, "system_time": "", "k": k} for offset, op, k in ops]
    assert present_offsets(rows) == (0, 5)

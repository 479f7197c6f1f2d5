"""`odf why` on a node: what it shows, and answers of other nodes that it checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.cli.provenance.why_check import check_answer, read_answer
from odfabric.cli.provenance.why_command import present_offsets
from odfabric.cli.provenance.why_text import why_rows, why_tree
from odfabric.errors import InvalidRequest
from odfabric.usecases.provenance.why_request import WhyRequest
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
    assert (root["depth"], str(root["behind"])[:17]) == (1, "ingested by block")


def test_an_answer_is_checked_elsewhere(answer: dict[str, Any], backend: NodeBackend, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    assert [wrong for _, wrong in check_answer(backend, read_answer(str(path)))] == [None, None]
    answer["records"][0]["values"]["city"] = "Z"
    answer["records"][1]["block"]["hash"] = "f1620" + "0" * 64
    first, second = (wrong for _, wrong in check_answer(backend, answer))
    assert "its row is" in str(first)
    assert "has it there" in str(second)
    answer["records"][0] = backend.why("copied", WhyRequest(offsets=(1,), values=True))["records"][0]  # type: ignore[index]
    answer["records"][0]["why"]["witnesses"][0]["ranges"] = [[0, 1]]
    assert "its rows are" in str(next(iter(check_answer(backend, answer)))[1])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"records": [{}]}', '{"records": [{"dataset": 1}]}'])
def test_what_is_no_answer_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match="is no answer"):
        read_answer(str(path))


def test_rows_that_are_there_now_are_those_no_withdrawal_has_taken() -> None:
    ops = ((0, 0, "a"), (1, 0, "a"), (2, 1, "a"), (3, 0, "b"), (4, 2, "b"), (5, 3, "c"), (6, 1, "d"))
    rows = [{"offset": offset, "op": op, "system_time": "", "k": k} for offset, op, k in ops]
    assert present_offsets(rows) == (0, 5)

"""`odf engine validate`: what is asked of the command line, before any engine is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.cli.app import main
from odfabric.cli.output import Output
from odfabric.cli.query_judgements import is_accepted, show_judgements
from odfabric.formats.manifests.manifest_yaml import parse_placed_snapshots
from odfabric.model.data_schema import DataField, DataSchema, DataTypeInt64, DataTypeOption
from odfabric.model.engine import (
    EvolutionVerdict,
    KeptBy,
    QueryEvolution,
    QueryOperator,
    QueryProblem,
    QueryState,
    ValidateResult,
)

REFUSED = [
    (["engine", "validate"], "name one of"),
    (["engine", "validate", "m.yaml", "--query", "select 1"], "name one of"),
    (["engine", "validate", "m.yaml", "--batch", "b.ndjson"], "name one of"),
    (["engine", "validate", "m.yaml", "--node", "http://127.0.0.1:1"], "leave --node out"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_a_request_that_is_none_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["--workspace", str(tmp_path / "none"), *arguments]) == 1
    assert said in capsys.readouterr().err


ACCEPTED = ValidateResult(
    problems=(),
    data_schema=DataSchema(fields=(DataField(name="n", type=DataTypeOption(inner=DataTypeInt64())),)),
    operator_class="keyed",
    keys=("a.k",),
    operators=(
        QueryOperator(operator_class="keyed", name="aggregate", keys=("k",), detail="sum(v)", step=0, line=2, column=7),
    ),
    states=(
        QueryState(kept=KeptBy.GROUPS, keys=("k",), relations=("a",)),
        QueryState(kept=KeptBy.ROWS, keys=(), relations=("a", "b")),
    ),
    notes=("read this",),
)


def shown(result: ValidateResult, capsys: pytest.CaptureFixture[str]) -> str:
    show_judgements(Output(as_json=False), {"totals": result}, {})
    return capsys.readouterr().out


def test_an_accepted_query_is_shown_with_operators_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(ACCEPTED, capsys).splitlines()
    assert lines[0] == "totals: accepted, keyed"
    assert lines[2].split() == ["1:2:7", "keyed", "aggregate", "k", "sum(v)"]
    assert lines[3:6] == [
        "  keeps one accumulator for each group, by k",
        "  keeps rows of a and b, by one key",
        "  note: read this",
    ]
    assert lines[7].split() == ["n", "int64", "yes"]


def test_problems_are_shown_with_their_place_and_what_to_write_instead(capsys: pytest.CaptureFixture[str]) -> None:
    problem = QueryProblem(
        rule="engine", message="another engine", hint="take this", step=1, line=3, column=4, suggestion="SELECT\n  1"
    )
    refused = ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())
    assert shown(refused, capsys).splitlines() == [
        "totals: refused",
        "  query 2 at line 3, column 4: another engine (engine)",
        "    take this",
        "    this is accepted:",
        "    SELECT",
        "      1",
    ]
    assert not is_accepted(refused)


def test_a_problem_of_ddl_is_not_placed_in_the_query(capsys: pytest.CaptureFixture[str]) -> None:
    (placed,) = parse_placed_snapshots(TOTALS, file="totals.yaml")
    problem = QueryProblem(rule="input-schema", message="wrong", hint=None, step=0, line=1, column=8, of_input=1)
    result = ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())
    show_judgements(Output(as_json=False), {"totals": result}, {"totals": placed})
    told = capsys.readouterr().out.splitlines()
    assert told == ["totals: refused", "  DDL of input 2 at line 1, column 8: wrong (input-schema)"]
    show_judgements(Output(as_json=True), {"totals": result}, {"totals": placed})
    ((error,),) = [each["errors"] for each in json.loads(capsys.readouterr().out)]
    assert (error["manifest"], error["field"]) == (None, "inputs[1].schema.ddl")


TOTALS = """
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
      query: >
        SELECT rand()
        AS r FROM trades
"""


def test_a_problem_of_a_manifest_has_its_place_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    (placed,) = parse_placed_snapshots(TOTALS, file="totals.yaml")
    problem = QueryProblem(rule="random", message="no chance", hint=None, step=0, line=1, column=8)
    result = ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())
    show_judgements(Output(as_json=False), {"totals": result}, {"totals": placed})
    expected = "  query 1 at line 1, column 8 (totals.yaml, line 14, column 16): no chance (random)"
    assert capsys.readouterr().out.splitlines() == ["totals: refused", expected]
    show_judgements(Output(as_json=True), {"totals": result}, {"totals": placed})
    (document,) = json.loads(capsys.readouterr().out)
    (error,) = document["errors"]
    assert (error["line"], error["column"]) == (1, 8)
    assert error["manifest"] == {"file": "totals.yaml", "line": 14, "column": 16}


@pytest.mark.parametrize("verdict", EvolutionVerdict)
def test_a_query_that_cannot_take_the_place_of_the_one_that_is_there_is_not_accepted(
    capsys: pytest.CaptureFixture[str], verdict: EvolutionVerdict
) -> None:
    evolution = QueryEvolution(verdict=verdict, reason="because")
    result = ValidateResult(problems=(), data_schema=None, operator_class=None, keys=(), evolution=evolution)
    assert f"  {verdict.value}: because" in shown(result, capsys)
    assert is_accepted(result) == (verdict is not EvolutionVerdict.REFUSED)

"""Judgements of queries for people.

Tables of operators and columns, or what is wrong and what to write instead.

With `-o json` it is the same document as the answer of a batch line, and for manifests the place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric.cli.output import Output
from odfabric.formats.manifests.manifest_places import PlacedSnapshot
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.engine import EvolutionVerdict, KeptBy, QueryOperator, QueryProblem, QueryState, ValidateResult
from odfabric.usecases.jobs.problem import suggestion_lines
from odfabric.usecases.queries.validate_queries import judgement, problem_value


def is_accepted(result: ValidateResult) -> bool:
    """Whether the query can run, and can take the place of the one that is there."""
    refused = result.evolution is not None and result.evolution.verdict is EvolutionVerdict.REFUSED
    return not result.problems and not refused


def show_judgements(output: Output, judged: Mapping[str, ValidateResult], placed: Mapping[str, PlacedSnapshot]) -> None:
    """Prints judgements by the names of their queries.

    `placed` are the manifests that hold them, if any do.
    """
    if output.as_json:
        output.document([_document(name, result, placed.get(name)) for name, result in judged.items()])
        return
    for name, result in judged.items():
        if result.problems:
            _show_problems(output, name, result, placed.get(name))
            continue
        words = f"accepted, {result.operator_class}" if result.operator_class else "accepted as far as inputs are known"
        output.result(None, f"{name}: {words}")
        if result.evolution is not None:
            output.result(None, f"  {result.evolution.verdict.value}: {result.evolution.reason}")
        if result.operators:
            output.rows([_operator_row(each) for each in result.operators])
        for state in result.states:
            output.result(None, f"  keeps {_kept(state)}")
        for note in result.notes:
            output.result(None, f"  note: {note}")
        if result.data_schema is not None:
            columns = data_schema_to_arrow(result.data_schema, encodings=False)
            shown = [
                {"column": one.name, "type": str(one.type), "null": "yes" if one.nullable else ""} for one in columns
            ]
            output.rows(shown)


def _document(name: str, result: ValidateResult, placed: PlacedSnapshot | None) -> dict[str, object]:
    """The answer of a batch line; its errors have the place in the manifest too."""
    told = judgement(result)
    if placed is not None:
        told["errors"] = [{**problem_value(each), "manifest": _in_manifest(each, placed)} for each in result.problems]
    return {"id": name, **told}


def _in_manifest(problem: QueryProblem, placed: PlacedSnapshot) -> dict[str, object] | None:
    """The place of a problem in the file, None for one of columns placed elsewhere."""
    if problem.of_input is not None:
        return None
    place = placed.place_of(problem.step, problem.line, problem.column)
    return {"file": place.file, "line": place.line, "column": place.column}


def _show_problems(output: Output, name: str, result: ValidateResult, placed: PlacedSnapshot | None) -> None:
    output.result(None, f"{name}: refused")
    for each in result.problems:
        place = "" if each.line is None else f" at line {each.line}, column {each.column}"
        if placed is not None and each.of_input is None:
            place += f" ({placed.place_of(each.step, each.line, each.column)})"
        part = f"query {each.step + 1}" if each.of_input is None else f"DDL of input {each.of_input + 1}"
        output.result(None, f"  {part}{place}: {each.message} ({each.rule})")
        if each.hint:
            output.result(None, f"    {each.hint}")
        if each.suggestion:
            output.result(None, "\n".join(suggestion_lines(each.suggestion)))


def _kept(state: QueryState) -> str:
    """What a part of a query keeps, in words."""
    kept = (
        "one accumulator for each group" if state.kept is KeptBy.GROUPS else f"rows of {' and '.join(state.relations)}"
    )
    return f"{kept}, by {', '.join(state.keys) or 'one key'}"


def _operator_row(operator: QueryOperator) -> dict[str, object]:
    place = "" if operator.line is None else f"{operator.step + 1}:{operator.line}:{operator.column}"
    return {
        "at": place,
        "class": operator.operator_class,
        "operator": operator.name,
        "keys": ", ".join(operator.keys),
        "detail": operator.detail,
    }

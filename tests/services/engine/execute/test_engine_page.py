"""The query of `docs/engine.md` has the forms that the page shows in each layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import input_tables, judge_transform
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.execute.staged_transaction import groups_name, rows_name
from odfabric_engine_spark.operators.aggregate.group_state import stored_groups
from odfabric_engine_spark.operators.keyed_recompute.recompute_run import RowsRun
from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.plan.normal_plan import normal_plan
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, LinearStage, RowsStage, shown_keys
from odfabric_engine_spark.plan.resolution import resolve_steps
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan
from odfabric_engine_spark.spark.frames.result_rows import arrow_of
from odfabric_engine_spark.sql.gate import steps_of
from odfabric_engine_spark.state.checkpoint import read_checkpoint
from odfabric_engine_spark.state.stored_runs import StateWork
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, Transaction, input_schema

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[4] / "docs/engine.md"
SALES = input_schema(pa.field("store", pa.string()), pa.field("amount", pa.int64()))
STORES = input_schema(pa.field("store", pa.string()), pa.field("region", pa.string()))
OPS = ("+A", "-R", "-C", "+C")
NUMBER = re.compile(r"#\d+L?")
OPERATORS = {LinearStage: "row_wise", RowsStage: "keyed_recompute", GroupStage: "aggregate"}
LEFT_OUT = re.compile("hash|^key$|_owing$")
"""Columns of states that say nothing to a reader of the page."""


def fenced(language: str) -> list[str]:
    """Blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_shows_the_forms_of_its_query(
    engine_call: EngineCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales, stores = Input(tmp_path, "sales", SALES), Input(tmp_path, "stores", STORES, number=2)
    out = Derivative(fenced("sql")[0], [sales, stores], engine_call)
    sales.add([(A, 9 * HOUR, "s1", 5), (A, 10 * HOUR, "s2", 7), (A, 11 * HOUR, "s3", 2)])
    stores.add([(A, 8 * HOUR, "s1", "north"), (A, 8 * HOUR, "s2", "north"), (A, 8 * HOUR, "s3", "south")])
    first = out.pull()
    stores.add([(CF, 8 * HOUR, "s2", "north"), (CT, 8 * HOUR, "s2", "south")])
    read, changed = watched(engine_call, monkeypatch)
    second = out.pull()

    plans, query = compiled(out, engine_call)
    forms = [
        *plans,
        stages_of(query),
        "\n".join(f"{name}\n{rows}" for name, rows in zip(("sales", "stores"), read, strict=True)),
        *changed,
        records_of(first) + "\n\n" + records_of(second),
        "\n".join(states_of(query, second, engine_call)),
    ]
    assert fenced("text") == [form.rstrip() + "\n" for form in forms]


def watched(call: EngineCall, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Rows that a stage reads and changes of its result, as transactions compute them."""
    read: list[str] = []
    changed: list[str] = []
    changes, apply = BoundPlan.changes, RowsRun.apply

    def reading(self: BoundPlan, sources: Sequence[Plan], *rest: Any, **named: Any) -> Any:
        read.extend(rows_of(arrow_of(Catalyst(call.session).data_frame(source))) for source in sources)
        return changes(self, sources, *rest, **named)

    def applying(self: RowsRun, *rest: Any, **named: Any) -> Delta:
        found = apply(self, *rest, **named)
        changed.append(rows_of(found.rows.append_column("weight", pa.array(found.weights))))
        return found

    monkeypatch.setattr(BoundPlan, "changes", reading)
    monkeypatch.setattr(RowsRun, "apply", applying)
    return read, changed


def compiled(out: Derivative, call: EngineCall) -> tuple[list[str], StagedQuery]:
    """The analysed and the normal plan as texts, and the query in stages."""
    tables = input_tables([(one.alias, DatasetVocabulary(), one.data_schema) for one in out.inputs])
    steps = steps_of(out.transform)
    resolved = resolve_steps(call.session, steps, tables, settings=call.settings, temporal_tables={})
    plans = [resolved.plan, normal_plan(resolved, tables, {}).plan]
    judged = judge_transform(call.session, steps, tables, DatasetVocabulary(), settings=call.settings)
    assert isinstance(judged.query, StagedQuery)
    return [NUMBER.sub("", str(plan.toString())) for plan in plans], judged.query


def stages_of(query: StagedQuery) -> str:
    lines = []
    for number, stage in enumerate(query.stages):
        reads = ", ".join(f"{leaf.kind} {leaf.source}" for leaf in stage.scans)
        lines.append(f"stage {number}: {OPERATORS[type(stage)]}, reads {reads}, key {', '.join(shown_keys(stage))}")
    return "\n".join(lines)


def states_of(query: StagedQuery, transaction: Transaction, call: EngineCall) -> Iterator[str]:
    """What the checkpoint of a transaction keeps, state by state."""
    stored, work = read_checkpoint(transaction.checkpoint_path, name="checkpoint"), StateWork.of(call)
    for number, stage in enumerate(query.stages):
        if isinstance(stage, RowsStage):
            for at, leaf in enumerate(stage.scans):
                schema = query.rows[number].kept_schema(leaf)
                state = stored.rows(rows_name(number, at), schema, timed=False, work=work)
                yield f"{rows_name(number, at)}\n{rows_of(pa.concat_tables(state.everything(100)))}"
        elif isinstance(stage, GroupStage):
            shape, name = query.groups[number].shape, groups_name(query, number)
            groups = stored_groups(stored, name, shape.state_schema, shape.key_names, end_column=None, work=work)
            yield f"{name}\n{rows_of(pa.concat_tables(groups.everything(100)))}"


def records_of(transaction: Transaction) -> str:
    table = transaction.table.drop_columns(["system_time"])
    ops = pa.array([OPS[op] for op in table.column("op").to_pylist()])
    return rows_of(table.set_column(table.schema.get_field_index("op"), "op", ops), ordered=False)


def rows_of(table: pa.Table, *, ordered: bool = True) -> str:
    """Rows as a text, columns in line."""
    shown = table.drop_columns([name for name in table.column_names if LEFT_OUT.search(name)])
    rows = [[text_of(value) for value in row.values()] for row in shown.to_pylist()]
    lines = [shown.column_names, *(sorted(rows) if ordered else rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def text_of(value: Any) -> str:
    return str(value.strftime("%H:%M")) if hasattr(value, "strftime") else str(value)

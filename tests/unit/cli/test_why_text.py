"""Lines about why records are there."""

from __future__ import annotations

from typing import Any

from odfabric.cli.provenance.why_text import RANGES_SHOWN, end_text, rows_text, values_text, why_rows, why_tree

BLOCK = {"sequence": 4, "systemTime": "2026-01-01T00:00:00Z"}


def rows(**more: Any) -> dict[str, Any]:
    return {"input": 0, "dataset": "d", "alias": "o", "count": 1, "ranges": [[0, 1]], "more": False, **more}


def cell(**more: Any) -> dict[str, Any]:
    return {"input": 0, "offset": 0, "column": "t", "of": "t", "role": "copied", **more}


def answer(**more: Any) -> dict[str, Any]:
    why = {
        "found": True,
        "verified": True,
        "minimal": False,
        "alternatives": 1,
        "byWatermark": False,
        "notes": [],
        "witnesses": [rows(end={"message": "hidden"})],
        "trigger": [],
        "cells": [cell(role=role) for role in ("compared", "copied", "copied")],
    }
    record = {"dataset": "d", "offset": 7, "op": "retract", "depth": 0, "block": BLOCK, "why": why, **more}
    return {"datasets": {"d": {"alias": "local/d"}}, "records": [record]}


def test_a_line_names_few_ranges() -> None:
    assert rows_text(rows(count=3, ranges=[[0, 2], [5, 6]])) == "o: 3 rows (0..1, 5)"
    many = [[2 * at, 2 * at + 1] for at in range(RANGES_SHOWN + 1)]
    assert rows_text(rows(count=11, ranges=many)).endswith(f"{2 * RANGES_SHOWN - 2}, ..)")
    assert rows_text(rows(count=99, more=True)) == "o: 99 rows (0, ..)"


def test_roles_of_a_column_are_said_once_the_strongest_first() -> None:
    assert "  t from t (copied, compared)" in list(why_tree(answer()))


def test_a_record_says_what_it_is_about_and_null_is_null() -> None:
    lines = list(why_tree(answer(corrects=3, values={"t": None})))
    assert lines[:2] == ["local/d 7 -R  t=null", "  it withdraws record 3"]
    assert "  it corrects record 3" in list(why_tree(answer(corrects=3, op="correct_to")))


def test_rows_that_another_node_shows_have_their_place() -> None:
    page = "http://b.test/local/d/-/why?offset=7"
    assert f"  the other node shows the further rows: {page}" in list(why_tree(answer(further=page)))


def test_a_file_is_named_once() -> None:
    end = {
        "reason": "root",
        "source": {"sourceName": "default", "kind": "odf/etag", "value": "x"},
        "file": {"name": "a.csv"},
        "place": {"message": "record 2 of the 3 of file a.csv"},
    }
    assert end_text({"end": end, "block": BLOCK}) == (
        "ingested by block 4 at 2026-01-01T00:00:00Z: record 2 of the 3 of file a.csv"
    )


def test_a_withdrawal_is_not_ingested_and_its_file_is_named_once() -> None:
    end = {
        "reason": "root",
        "file": {"name": "a.csv"},
        "place": {"message": "the earlier row of its key, replaced by file a.csv"},
    }
    assert end_text({"end": end, "block": BLOCK, "op": "correct_from"}) == (
        "withdrawn by block 4 at 2026-01-01T00:00:00Z: the earlier row of its key, replaced by file a.csv"
    )


def test_a_correction_says_what_it_changes() -> None:
    now, before = {"t": 33, "k": "a", "n": None}, {"t": 43, "k": "a", "n": True}
    lines = list(why_tree(answer(op="correct_to", corrects=3, values=now, before=before)))
    assert lines[1] == "  it corrects record 3: t=43, n=true before"


def test_values_are_those_of_json() -> None:
    values = {"l": ["a", None], "s": {"x": -0.0, "y": False}, "t": "a b", "b": True}
    assert values_text(values) == 'l=["a", null], s={"x": -0.0, "y": false}, t=a b, b=true'


def test_of_several_records_those_that_give_the_value_are_named() -> None:
    why = answer()["records"][0]["why"]
    why["witnesses"] = [rows(count=4, ranges=[[0, 4]]), rows(input=1, alias="s")]
    why["cells"] = [cell(offset=3), cell(offset=2, role="compared"), cell(input=1, column="u")]
    assert "  t from t (copied, compared), u (copied) of o 3" in list(why_tree(answer(why=why)))


def test_a_cell_that_no_row_gives_is_said_to_be_so() -> None:
    asked = {**answer(), "kinds": ["witnesses", "cells"], "columns": ["t", "seven"]}
    lines = list(why_tree(asked))
    assert "  seven comes from no cell of these rows: it is a constant, or no row matched" in lines
    assert not any(line.startswith("  t comes from no") for line in lines)
    without = {**asked, "kinds": ["witnesses"]}
    assert not any("comes from no cell" in line for line in why_tree(without))


def test_the_depth_is_not_said_of_each_record_and_the_table_is_short() -> None:
    deep = {
        "dataset": "d",
        "offset": 0,
        "op": "append",
        "depth": 1,
        "block": BLOCK,
        "end": {"reason": "depth", "message": "not followed"},
    }
    long = "one of the records of file a.csv: they are compared"
    root = {**deep, "offset": 1, "end": {"reason": "root", "file": {"name": "a.csv"}, "place": {"message": long}}}
    asked = answer()
    asked["records"] += [deep, root]
    assert not any("not followed" in line for line in why_tree(asked))
    assert [row["behind"] for row in why_rows(asked)[1:]] == ["", "ingested from file a.csv"]

"""Lines about why records are there."""

from __future__ import annotations

from typing import Any

from odfabric.cli.provenance.why_text import RANGES_SHOWN, end_text, rows_text, why_tree

BLOCK = {"sequence": 4, "systemTime": "2026-01-01T00:00:00Z"}


def rows(**more: Any) -> dict[str, Any]:
    return {"input": 0, "dataset": "d", "alias": "o", "count": 1, "ranges": [[0, 1]], "more": False, **more}


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
        "cells": [{"column": "t", "of": "t", "role": role} for role in ("compared", "copied", "copied")],
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

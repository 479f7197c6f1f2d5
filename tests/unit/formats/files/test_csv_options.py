"""Options of CSV: which can work, and what is suggested for those that cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.files.csv_options import check_csv_step, csv_dialect
from odfabric.model.source import ReadStepCsv


@pytest.mark.parametrize(
    ("options", "field", "hint"),
    [
        ({"separator": "\\t"}, "separator", '"\\t"'),
        ({"separator": "TAB"}, "separator", '"\\t"'),
        ({"separator": "||"}, "separator", "whole lines"),
        ({"separator": "¦"}, "separator", "whole lines"),
        ({"separator": "\n"}, "separator", "whole lines"),
        ({"separator": ""}, "separator", "whole lines"),
        ({"separator": '"'}, "separator", "quote: ''"),
        ({"separator": "\\"}, "separator", "escape: ''"),
        ({"quote": '""'}, "quote", "quote: '\"'"),
        ({"quote": "“"}, "quote", "quote: ''"),
        ({"escape": "\\\\"}, "escape", "escape: '\\'"),
        ({"escape": "''"}, "escape", 'escape: "\'"'),
        ({"encoding": "klingon"}, "encoding", "known: utf-8"),
        ({"date_format": "dd.MM.yyyy"}, "dateFormat", "%d.%m.%Y"),
        ({"timestamp_format": "HH:mm"}, "timestampFormat", "known: rfc3339"),
    ],
)
def test_what_cannot_work_is_refused_with_what_can(options: dict[str, Any], field: str, hint: str) -> None:
    problem = check_csv_step(ReadStepCsv(**options))
    assert problem is not None
    assert problem.place.field == field
    assert hint in str(problem.hint)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"separator": "\t", "quote": "", "escape": ""},
        {"separator": "\u0001", "quote": "'", "escape": "'"},
        {"encoding": "windows-1252", "date_format": "%d.%m.%Y", "timestamp_format": "%s", "null_value": "NA"},
        {"header": True, "infer_schema": True},
    ],
)
def test_what_can_work(options: dict[str, Any]) -> None:
    assert check_csv_step(ReadStepCsv(**options)) is None


@given(separator=st.text(max_size=3), quote=st.text(max_size=2), escape=st.text(max_size=2))
def test_a_step_has_three_characters_or_is_refused(separator: str, quote: str, escape: str) -> None:
    step = ReadStepCsv(separator=separator, quote=quote, escape=escape)
    problem = check_csv_step(step)
    if problem is None:
        dialect = csv_dialect(step)
        assert [dialect.separator, dialect.quote or "", dialect.escape or ""] == [separator, quote, escape]
    else:
        assert problem.hint

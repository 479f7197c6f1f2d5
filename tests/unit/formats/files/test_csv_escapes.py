"""Escapes within quoted values: read in pairs before a quote, else literally."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords


def records(text: str, **dialect: Any) -> list[list[str]]:
    options = {"separator": ",", "quote": '"', "escape": "\\", **dialect}
    found = CsvRecords(io.StringIO(text, newline=""), CsvDialect(**options), file="f", value_characters_max=1 << 20)
    return [[cell.text for cell in record] for record in found]


def quoted(value: str, quote: str) -> str:
    """A writer's quoted value; `quote` writes a quote.

    Escapes are doubled before a quote and at the end only.
    """
    within = re.sub(r'(\\*)"', lambda run: run[1] * 2 + quote, value)
    if not value.endswith('"'):
        within = re.sub(r"(\\+)\Z", lambda run: run[1] * 2, within)
    return f'"{within}"'


@given(st.lists(st.text('ab\\",\n', max_size=12), min_size=2, max_size=4), st.sampled_from(['\\"', '""']))
def test_what_is_written_is_read(values: list[str], quote: str) -> None:
    assert records(",".join(quoted(value, quote) for value in values) + "\n") == [values]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (r"\\srv\share", r"\\srv\share"),
        (r"\\\\d+ \w", r"\\\\d+ \w"),
        (r"say \"hi\"", 'say "hi"'),
        (r"two \\\"", 'two \\"'),
        (r"C:\dir\\", "C:\\dir\\"),
        (r'a \\""b', 'a \\"b'),
    ],
)
def test_runs_of_escapes(raw: str, value: str) -> None:
    assert records(f'1,"{raw}"\n2,x\n') == [["1", value], ["2", "x"]]


def test_other_escapes_and_none() -> None:
    assert records('"a!"b!!c"\n', escape="!") == [['a"b!!c']]
    assert records('"C:\\dir\\",x\n', escape=None) == [["C:\\dir\\", "x"]]
    assert records('"C:\\dir\\",x\n', escape='"') == [["C:\\dir\\", "x"]]


@pytest.mark.parametrize("text", ['1,"C:\\dir, x\\"\n', '1,"C:\\dir\\","x"\n'])
def test_an_escape_before_the_closing_quote_is_named(text: str) -> None:
    with pytest.raises(InvalidData) as caught:
        records("id,path\n" + text)
    assert caught.value.place.line == 2
    assert "escape: ''" in str(caught.value.hint)


def test_a_quote_that_is_not_closed_names_no_escape_where_none_is() -> None:
    with pytest.raises(InvalidData) as caught:
        records('1,"a\n')
    assert "escape" not in str(caught.value.hint)


def test_long_runs_are_read_in_one_pass() -> None:
    run = "\\" * 300_000
    assert records(f'"{run}x"\n') == [[run + "x"]]
    assert records(f'"{run}"\n') == [[run[::2]]]

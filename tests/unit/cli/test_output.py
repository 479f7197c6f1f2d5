"""Output: one JSON document, progress that does not flood a pipe."""

import json

import pytest

from odfabric.cli.output import PIPE_PROGRESS_S_MIN, Output


class Seconds:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_in_a_pipe_is_a_sign_of_life_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = Seconds()
    output = Output(as_json=False, seconds=seconds)
    for done in range(100):
        output.progress(f"verify {done}/100")
    assert capsys.readouterr().err == "", "a short command says nothing of its steps"
    for done in range(20):
        seconds.now += PIPE_PROGRESS_S_MIN / 4
        output.progress(f"replay {done}/20")
    assert capsys.readouterr().err.splitlines() == [f"odf: at work: replay {done}/20" for done in (3, 7, 11, 15, 19)]


def test_progress_is_not_told_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = Seconds()
    output = Output(as_json=True, seconds=seconds)
    seconds.now = PIPE_PROGRESS_S_MIN * 2
    output.progress("verify")
    assert capsys.readouterr() == ("", "")


def test_rows_are_an_array_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"city": "Zürich", "n": 1}]
    Output(as_json=True).rows(rows)
    assert json.loads(capsys.readouterr().out) == rows
    Output(as_json=False).rows(rows, title="Cities")
    assert capsys.readouterr().out == "\nCities\ncity    n\nZürich  1\n"


def test_no_rows_are_an_empty_array_or_a_word_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).rows([])
    assert capsys.readouterr() == ("[]\n", "")
    Output(as_json=False).rows([])
    assert capsys.readouterr() == ("", "nothing to show\n")


def test_operations_are_words_for_people_and_numbers_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"offset": 0, "what": 2, "n": 3}]
    Output(as_json=False).stored_rows(rows, title="Last rows")
    assert "correct_from" in capsys.readouterr().out
    Output(as_json=True).stored_rows(rows)
    assert json.loads(capsys.readouterr().out) == rows

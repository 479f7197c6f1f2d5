"""The command itself: options before and after a verb, exit codes, one JSON document whatever happens."""

import json
import logging
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.app import asks_json, hoist, main
from odfabric.cli.context import GLOBAL_OPTIONS
from odfabric.cli.output import WarningLines

VERBS = (
    "init",
    "add",
    "list",
    "show",
    "ingest",
    "pull",
    "log",
    "tail",
    "sql",
    "verify",
    "delete",
    "up",
    "demo",
    "test",
)
words = st.text(alphabet="abc", min_size=1, max_size=4)


def test_options_of_every_verb_may_stand_behind_it() -> None:
    assert hoist(["tail", "readings", "-o", "json", "-n", "3"]) == ["-o", "json", "tail", "readings", "-n", "3"]
    assert hoist(["list", "--workspace=w", "-ojson"]) == ["--workspace=w", "-ojson", "list"]
    assert hoist(["sql", "--", "-o", "--node"]) == ["sql", "--", "-o", "--node"]
    assert hoist(["list", "--node"]) == ["--node", "list"], "without its value: told by the parser"


@given(st.lists(words | st.sampled_from(GLOBAL_OPTIONS), max_size=8))
def test_hoisting_keeps_every_word_and_the_order_of_the_rest(arguments: list[str]) -> None:
    hoisted = hoist(arguments)
    assert sorted(hoisted) == sorted(arguments)
    assert hoist(hoisted) == hoisted


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list"], False),
        (["-o", "json", "list"], True),
        (["-ojson", "list"], True),
        (["--output=json", "list"], True),
        (["-o", "json", "-o", "text", "list"], False),
        (["--workspace", "json", "list"], False),
        (["sql", "json"], False),
        (["-o"], False),
    ],
)
def test_whether_errors_are_json_is_known_before_options_are_read(arguments: list[str], expected: bool) -> None:
    assert asks_json(arguments) is expected


@pytest.mark.parametrize(
    "arguments",
    [[], ["nope"], ["list", "--nope"], ["tail"], ["tail", "x", "-n", "0"], ["list", "-o", "xml"], ["list", "--node"]],
)
def test_wrong_usage_is_2_and_leaves_standard_output_alone(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "sage: odf" in err


def test_wrong_usage_is_a_document_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--nope", "-o", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_an_unknown_workspace_is_1_and_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--workspace", str(tmp_path / "none")]) == 1
    out, err = capsys.readouterr()
    assert (out, str(tmp_path / "none") in err, "odf init" in err) == ("", True, True)
    assert not (tmp_path / "none").exists()


def test_a_node_that_is_away_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    # Port 9 of the loopback is the discard service, which nothing offers any more.
    assert main(["list", "--node", "http://127.0.0.1:9", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "unavailable"
    assert "is it running?" in err


def test_help_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for verb in VERBS:
        assert f"\n  {verb} " in out, verb


def test_a_warning_of_the_library_is_one_readable_line(
    capsys: pytest.CaptureFixture[str],
) -> None:

    logger = logging.getLogger("odfabric.test")
    handler = WarningLines(logging.WARNING)
    logger.addHandler(handler)
    try:
        logger.warning("attempt %d: %s", 1, "no engine\n\x1b[31m")
        logger.info("not told")
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr().err == "odf: warning: attempt 1: no engine\\n\\x1b[31m\n"


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odf {project['version']}\n"

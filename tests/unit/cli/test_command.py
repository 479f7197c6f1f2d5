"""The command: options around a verb, exit codes, always one JSON document."""

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


def test_a_demo_is_kept_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odf-demo").mkdir()
    (tmp_path / "odf-demo" / "mine").write_text("x")
    assert main(["demo", "--keep"]) == 1
    err = capsys.readouterr().err
    assert "odf-demo has files already" in err
    assert "ODF_WORKSPACE=odf-demo/first odf up" in err
    assert [path.name for path in (tmp_path / "odf-demo").iterdir()] == ["mine"]


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


@pytest.mark.parametrize(("variable", "value"), [("ODF_PUSH_WAIT_S_MAX", "soon"), ("ODF_EGRESS_ALLOW", "127.0.0.0/8")])
def test_a_wrong_variable_is_named(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["init", "--workspace", str(tmp_path / "w"), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["field"] == variable


def test_a_workspace_that_cannot_be_made_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for folder in ("file", "file/below"):
        assert main(["init", "--workspace", str(tmp_path / folder)]) == 1
        assert "cannot be a workspace" in capsys.readouterr().err


def test_what_the_system_refuses_is_3_and_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "objects/data")

    monkeypatch.setattr("odfabric.cli.app.app", full)
    assert main(["list", "-o", "json"]) == 3
    assert "objects/data: No space left" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_up_checks_its_options_before_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = ["--workspace", str(tmp_path / "w")]
    assert main(["up", "--port", "99999", *workspace]) == 2
    for option, value in (("--poll-folder", "none"), ("--ready-file", "none/node.json")):
        capsys.readouterr()
        assert main(["up", option, str(tmp_path / value), *workspace]) == 1
        assert f"field {option}: there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_an_address_of_a_node_is_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("localhost", "ftp://host", "http://", "http://host:port"):
        assert main(["list", "--node", address]) == 1
        assert f"field --node: not a node's address: {address}" in capsys.readouterr().err

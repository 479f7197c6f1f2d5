"""Verbs on a local workspace, from arguments to what is printed.

Rows come in through the small engine of the tests.
"""

import io
import json
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.cli.backends.backend import PushFile, VerifyWish
from odfabric.cli.backends.workspace import WorkspaceBackend
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import open_node
from tests.usecases.manifests import DERIVED, POLLED, ROOT

ROWS = '{"event_time": "2026-01-01T00:00:00Z", "city": "Delft", "value": 1}\n'


class Command:
    """`odf` on one workspace."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Standard output; the exit code must be `code`."""
        assert main(["--workspace", str(self.workspace), *arguments]) == code
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, *arguments: str, code: int = 0) -> object:
        """The one JSON document."""
        return json.loads(self(*arguments, "-o", "json", code=code))

    def push(self, data: str) -> None:
        """What `ingest` does, by an engine that starts at once."""
        path = self.workspace.parent / "rows.ndjson"
        path.write_text(data)
        engine = MemoryEngine(self.workspace / "exchange")
        with open_node(Settings(workspace=self.workspace), engine=engine) as node:
            WorkspaceBackend(node, listener=lambda _: None).push("readings", push_of(path))


def push_of(path: Path, key: str | None = None) -> PushFile:
    return PushFile(
        path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=key
    )


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command on a workspace with the dataset `readings`."""
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(ROOT)
    command("add", str(tmp_path / "root.yaml"))
    return command


def test_init_twice_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odf = Command(tmp_path / "w", capsys)
    assert odf.json("init") == {"workspace": str(tmp_path / "w"), "created": True}
    token = (tmp_path / "w/node.token").read_text()
    assert odf.json("init") == {"workspace": str(tmp_path / "w"), "created": False}
    assert (tmp_path / "w/node.token").read_text() == token


def test_of_several_pulls_those_that_fail_are_named_and_the_others_go_on(odf: Command) -> None:
    """A name that is not there, a job that fails, and another name."""
    (odf.workspace.parent / "polled.yaml").write_text(POLLED)
    odf("add", str(odf.workspace.parent / "polled.yaml"))
    odf("pull", "nowhere", "polled", "elsewhere", code=1)
    assert [line.partition(":")[0] for line in odf.err.splitlines()] == [
        "nowhere was not pulled",
        "polled was not pulled",
        "elsewhere was not pulled",
        "odf",
    ]
    assert odf.err.splitlines()[-1] == "odf: dataset not found: nowhere"


def test_list_names_datasets(odf: Command) -> None:
    (listed,) = odf.json("list")  # type: ignore[misc]
    assert set(listed) == {"id", "alias", "kind", "head"}
    assert (listed["alias"], listed["kind"]) == ("local/readings", "Root")
    heading, line = odf("list").splitlines()
    assert heading.split() == ["alias", "id", "kind", "head"]
    assert line.startswith("local/readings  did:odf:fed01")
    assert listed["id"] not in line


def test_tail_says_operations_in_words_and_gives_programs_numbers(odf: Command) -> None:
    odf.push(ROWS)
    heading, line = odf("tail", "readings").splitlines()
    assert heading.split()[:2] == ["offset", "op"]
    assert line.split()[:2] == ["0", "append"]
    (row,) = odf.json("tail", "readings")  # type: ignore[misc]
    assert (row["op"], row["city"], row["value"]) == (0, "Delft", 1)


def test_tail_of_nothing(odf: Command) -> None:
    assert odf("tail", "readings") == ""
    assert odf.err == "nothing to show\n"
    assert odf.json("tail", "readings") == []


def test_log_is_newest_first_and_bounded(odf: Command) -> None:
    odf.push(ROWS)
    links = odf.json("log", "readings")
    assert isinstance(links, list)
    assert [set(link) for link in links] == [{"hash", "block"}] * len(links)
    numbers = [link["block"]["content"]["sequenceNumber"] for link in links]
    assert numbers == list(range(len(links) - 1, -1, -1))
    assert len(odf.json("log", "readings", "-n", "1")) == 1  # type: ignore[arg-type]
    shown = odf("log", "readings", "-n", "1")
    assert shown.startswith(f"Block: {links[0]['hash']}\nsystemTime: ")
    assert "kind: AddData" in shown


def test_show_is_a_document_either_way(odf: Command) -> None:
    shown = odf.json("show", "readings")
    assert json.loads(odf("show", "local/readings")) == shown


def test_verify_tells_what_is_damaged_and_ends_with_1(odf: Command) -> None:
    odf.push(ROWS)
    assert odf("verify", "readings") == "readings: verified\n"
    assert odf.json("verify", "readings") == {"ok": True, "errors": []}
    (slice_file,) = (odf.workspace / "objects").glob("fed01*/data/*")
    damaged = bytearray(slice_file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    slice_file.chmod(0o600)
    slice_file.write_bytes(damaged)
    shown = odf("verify", "readings", code=1)
    assert shown.splitlines()[0] == "readings: 1 problem"
    assert slice_file.name in shown
    report = odf.json("verify", "readings", code=1)
    assert isinstance(report, dict)
    assert [set(error) for error in report["errors"]] == [{"kind", "dataset", "block", "object", "message"}]


def test_verify_of_a_wrong_ref_names_no_block(odf: Command) -> None:
    (ref,) = (odf.workspace / "objects").glob("fed01*/refs/head")
    ref.write_text("f1620" + "0" * 64)
    lines = odf("verify", "readings", code=1).splitlines()
    assert lines[0] == "readings: 1 problem"
    assert "None" not in "".join(lines)


def test_delete_frees_the_name(odf: Command, tmp_path: Path) -> None:
    assert odf("delete", "--yes", "readings") == "deleted local/readings\n"
    assert odf.json("list") == []
    odf("delete", "--yes", "readings", code=1)
    assert odf.err == "odf: dataset not found: readings\n"
    odf("add", str(tmp_path / "root.yaml"))


def test_what_was_done_before_a_failure_is_told(odf: Command, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(ROOT.replace("name: readings", "name: others"))
    added = odf("add", str(tmp_path / "other.yaml"), str(tmp_path / "root.yaml"), code=1)
    assert added.startswith("created local/others ")
    assert odf("delete", "--yes", "others", "none", "readings", code=1) == "deleted local/others\n"
    assert [one["alias"] for one in odf.json("list")] == ["local/readings"]  # type: ignore[union-attr]


def test_a_taken_name_is_told_as_it_is_spelt(odf: Command, tmp_path: Path) -> None:
    (tmp_path / "capital.yaml").write_text(ROOT.replace("name: readings", "name: Readings"))
    odf("add", str(tmp_path / "capital.yaml"), code=1)
    assert "a dataset named local/readings exists" in odf.err


def test_add_reads_standard_input(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ROOT.replace("name: readings", "name: others").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(other)))
    assert odf("add", "-").startswith("created local/others  did:odf:")


def test_a_wrong_manifest_is_named_with_line_and_field_and_adds_nothing(odf: Command, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(ROOT.replace("name: readings", "name: others").replace("sourceName", "sourceNmae"))
    odf("add", str(wrong), code=1)
    assert f"{wrong}, line 9" in odf.err
    assert "sourceNmae" in odf.err
    assert [one["alias"] for one in odf.json("list")] == ["local/readings"]  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", [("add",), ("ingest", "readings"), ("system", "digest"), ("system", "block", "hash")])
def test_a_file_that_is_not_there_is_named(odf: Command, verb: tuple[str, ...], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.csv")
    odf(*verb, missing, code=1)
    assert odf.err == f"odf: file not found: {missing}\n"
    odf(*verb, str(tmp_path), code=1)
    assert odf.err == f"odf: {tmp_path} is not a file\n"


def test_arguments_of_ingest_are_checked_before_anything_runs(odf: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(ROWS)
    odf("ingest", "readings", str(tmp_path / "a"), str(tmp_path / "b"), "--idempotency-key", "k", code=1)
    assert "one file" in odf.err
    odf("ingest", "readings", str(tmp_path / "a"), "--idempotency-key", "", code=1)
    assert "1 to 255 characters" in odf.err
    odf("ingest", "readings", "n" * 300, code=1)
    assert "cannot be read" in odf.err
    odf("ingest", "readings", str(tmp_path / "a"), "--event-time", "yesterday", code=1)
    assert "--event-time" in odf.err


# The backend of a workspace, on a node in memory: verbs that need an engine.


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    """A node with a root dataset and a derivative one."""
    node = MemoryNode(tmp_path)
    node.add(ROOT)
    node.add(DERIVED)
    return node


def test_a_push_with_a_repeated_key_is_the_same_push(memory: MemoryNode, tmp_path: Path) -> None:
    backend = WorkspaceBackend(memory.node, listener=lambda _: None)
    (tmp_path / "rows.ndjson").write_text(ROWS)
    first = backend.push("readings", push_of(tmp_path / "rows.ndjson", key="monday"))
    assert (first["rows"], first["offsets"]) == (1, {"start": 0, "end": 0})
    assert backend.push("readings", push_of(tmp_path / "rows.ndjson", key="monday")) == first
    assert len(backend.tail("readings", limit=10, skip=0)) == 1


def test_a_pull_derives_and_then_is_up_to_date(memory: MemoryNode, tmp_path: Path) -> None:
    stages: list[object] = []
    backend = WorkspaceBackend(memory.node, listener=lambda progress: stages.append(progress.get("stage")))
    (tmp_path / "rows.ndjson").write_text(ROWS)
    backend.push("readings", push_of(tmp_path / "rows.ndjson"))
    pulled = backend.pull("copied", url=None, recursive=False, fetch_uncacheable=False)
    assert (pulled["alias"], pulled["rows"], pulled["upToDate"]) == ("local/copied", 1, False)
    again = backend.pull("copied", url=None, recursive=True, fetch_uncacheable=False)
    assert (again["upToDate"], again["head"]) == (True, pulled["head"])
    assert any(stages), "progress is told"
    assert backend.verify("copied", VerifyWish()) == {"ok": True, "errors": []}
    (row,) = backend.sql("SELECT * FROM copied", limit=10)
    assert row["city"] == "Delft"


def test_a_secret_of_a_source_is_a_line_of_standard_input_and_never_an_argument(
    odf: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))
    assert odf("variables", "set", "readings", "TOKEN", "--secret") == "readings: secret TOKEN is set\n"
    odf("variables", "set", "readings", "HOST", "data.example")
    listed = odf("variables", "list", "readings")
    assert "(secret)" in listed
    assert "data.example" in listed
    assert "s3cret" not in listed + odf.err
    odf("variables", "set", "readings", "TOKEN", "s3cret", "--secret", code=1)
    assert "no argument" in odf.err
    odf("variables", "remove", "readings", "TOKEN")
    assert [each["name"] for each in odf.json("variables", "list", "readings")] == ["HOST"]  # type: ignore[attr-defined]

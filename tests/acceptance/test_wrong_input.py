"""Any wrong input: the error says what and where; nothing is half-written."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.acceptance.conftest import LocalWorkspace
from tests.support.node_process import NDJSON, NodeProcess, Odf, ndjson
from tests.support.stories import CSV_HEADER, csv, derivative, polled, reading, root

PROBLEM = "application/problem+json"
LEDGER = "{kind: Ledger, primaryKey: [event_time, city]}"
CSV_READ = "kind: Csv\n      header: true"


def problem_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a refusal, in the form of RFC 9457."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["code"], problem["status"]) == (code, status), problem
    assert problem["message"] in problem["detail"]
    return problem


@dataclass(frozen=True)
class Wrong:
    """What is sent, and the refusal's code, members of the place, and words."""

    name: str
    sent: str
    code: str
    place: dict[str, object]
    words: tuple[str, ...]
    status: int = 422

    def __str__(self) -> str:
        return self.name


MANIFESTS = [
    Wrong(
        "bad YAML",
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: broken\n  kind: [Root\n  metadata: []\n",
        "invalid-manifest",
        {"line": 6},
        (),
    ),
    Wrong(
        "unknown field",
        root("broken").replace("sourceName:", "sourceNome:"),
        "invalid-manifest",
        {"line": 8, "column": 5, "field": "content.metadata[0].sourceNome"},
        ("sourceNome",),
    ),
    Wrong(
        "wrong type",
        root("broken", read="kind: Csv\n      header: perhaps"),
        "invalid-manifest",
        {"line": 11, "column": 15, "field": "content.metadata[0].read.header"},
        ("perhaps",),
    ),
    Wrong(
        "unknown data type",
        root("broken").replace("type: String", "type: Strong"),
        "invalid-manifest",
        {"line": 14},
        ("Strong",),
    ),
    Wrong(
        "another engine",
        derivative("broken", of="strict", query="SELECT * FROM strict").replace("engine: spark", "engine: flink"),
        "invalid-query",
        {"field": "transform.queries[0]"},
        ("flink", "spark"),
        status=400,
    ),
    Wrong(
        "an input that is not there",
        derivative("broken", of="nowhere", query="SELECT * FROM nowhere"),
        "invalid-manifest",
        {"field": "metadata[0].inputs"},
        ("nowhere",),
    ),
]

QUERIES = [
    Wrong("rand", "SELECT event_time, rand() AS r FROM strict", "invalid-query", {"line": 1}, ("rand",)),
    Wrong("now", "SELECT event_time, now() AS n FROM strict", "invalid-query", {"line": 1}, ("now",)),
    Wrong("current_timestamp", "SELECT event_time, current_timestamp AS n FROM strict", "invalid-query", {}, ()),
    Wrong("uuid", "SELECT event_time, uuid() AS n FROM strict", "invalid-query", {"line": 1}, ("uuid",)),
    Wrong("a file by its path", "SELECT * FROM csv.`/etc/passwd`", "invalid-query", {}, ()),
    Wrong("read_files", "SELECT * FROM read_files('/etc/passwd')", "invalid-query", {}, ("read_files",)),
    Wrong(
        "java",
        "SELECT event_time, reflect('java.lang.System', 'exit', 1) AS n FROM strict",
        "invalid-query",
        {},
        ("reflect",),
    ),
    Wrong("no SQL", "SELEC * FROM strict", "invalid-query", {"line": 1, "column": 1}, ()),
    Wrong("a column that is not there", "SELECT event_time, town FROM strict", "invalid-query", {"line": 1}, ("town",)),
]

GOOD = reading(0)
PUSHES = [
    Wrong("null key", csv(GOOD) + "2026-01-01T01:00:00Z,,1\n", "invalid-data", {}, ("city",)),
    Wrong("bad timestamp", csv(GOOD) + "yesterday,A,1\n", "invalid-data", {"line": 3}, ("yesterday",)),
    Wrong("no number", csv(GOOD) + "2026-01-01T01:00:00Z,A,many\n", "invalid-data", {"line": 3}, ("many",)),
    Wrong(
        "too few columns after a quoted newline",
        CSV_HEADER + '2026-01-01T00:00:00Z,"A\nB",1\n2026-01-01T01:00:00Z,A\n',
        "invalid-data",
        {"line": 4},
        (),
    ),
    Wrong("too many columns", csv(GOOD) + "2026-01-01T01:00:00Z,A,1,2\n", "invalid-data", {"line": 3}, ()),
    Wrong("same key twice", csv(GOOD, {**GOOD, "value": 2}), "invalid-data", {}, ("city",)),
    Wrong("a column is missing", "event_time,city\n2026-01-01T01:00:00Z,A\n", "invalid-data", {"line": 1}, ("value",)),
]


@pytest.fixture(scope="module")
def strict(node: NodeProcess) -> str:
    """A dataset with one row; whatever is sent to it here, it keeps that row."""
    node.create(root("strict", read=CSV_READ, merge=LEDGER))
    pushed = node.post("/local/strict/ingest", csv(reading(200)), content_type="text/csv")
    assert pushed.status_code == 200, pushed.text
    return "strict"


def expect(problem: dict[str, Any], wrong: Wrong) -> None:
    assert {key: problem.get(key) for key in wrong.place} == wrong.place, problem
    for word in wrong.words:
        assert word in problem["detail"], problem


def names(node: NodeProcess) -> set[str]:
    return {found["alias"] for found in node.http.get("/datasets", params={"limit": 1000}).json()["datasets"]}


@pytest.mark.parametrize("wrong", MANIFESTS, ids=str)
def test_manifests(node: NodeProcess, strict: str, wrong: Wrong) -> None:
    before = names(node)
    answer = node.post("/datasets", wrong.sent, content_type="application/yaml")
    expect(problem_of(answer, wrong.status, wrong.code), wrong)
    assert names(node) == before


@pytest.mark.parametrize("wrong", QUERIES, ids=str)
def test_queries_of_transforms(node: NodeProcess, strict: str, wrong: Wrong) -> None:
    before = names(node)
    sent = derivative("refused", of="strict", query=wrong.sent)
    problem = problem_of(node.post("/datasets", sent, content_type="application/yaml"), 400, wrong.code)
    within = {**problem, "line": problem.get("queryLine"), "column": problem.get("queryColumn")}
    expect(within, wrong)
    # The query stands in one line of the manifest.
    begin = sent.splitlines()[problem["line"] - 1].index(wrong.sent)
    assert problem.get("column") in (None, begin + (problem.get("queryColumn") or 0))
    assert names(node) == before


def test_all_that_is_wrong_with_a_query_is_told(node: NodeProcess, strict: str) -> None:
    sent = derivative("refused", of="strict", query="SELECT event_time, town, kity FROM strict")
    problem = problem_of(node.post("/datasets", sent, content_type="application/yaml"), 400, "invalid-query")
    assert [each["message"] for each in problem["errors"]] == ["unknown column `town`", "unknown column `kity`"]
    lines = sent.splitlines()
    assert [lines[each["line"] - 1][each["column"] - 1 :][:4] for each in problem["errors"]] == ["town", "kity"]


def test_a_query_is_judged_before_data_come(node: NodeProcess) -> None:
    node.create(root("dry"))
    node.create(derivative("dry-cities", of="dry", query="SELECT event_time, city FROM dry"))
    sent = derivative("refused", of="dry-cities", query="SELECT event_time, city, value FROM `dry-cities`")
    problem = problem_of(node.post("/datasets", sent, content_type="application/yaml"), 400, "invalid-query")
    assert [each["message"] for each in problem["errors"]] == ["unknown column `value`"]
    node.create(sent.replace(", value", ""))


@pytest.mark.parametrize(
    "wrong", [wrong for wrong in QUERIES if wrong.name not in ("rand", "now", "uuid", "current_timestamp")], ids=str
)
def test_queries_of_users(node: NodeProcess, strict: str, wrong: Wrong) -> None:
    expect(problem_of(node.http.post("/query", json={"query": wrong.sent}), 400, wrong.code), wrong)


@pytest.mark.parametrize("wrong", PUSHES, ids=str)
def test_pushes(node: NodeProcess, strict: str, wrong: Wrong) -> None:
    before, rows = node.head(strict), node.tail(strict)
    answer = node.post(f"/local/{strict}/ingest", wrong.sent, content_type="text/csv")
    expect(problem_of(answer, wrong.status, wrong.code), wrong)
    assert (node.head(strict), node.tail(strict)) == (before, rows)


def inferred(manifest: str) -> str:
    """The manifest without the columns of its source."""
    return re.sub(r"\n +schema:(\n {8}.*)+", "", manifest)


PARQUET = "application/vnd.apache.parquet"


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_damaged_parquet_and_bombs(node: NodeProcess) -> None:
    node.create(inferred(root("numbers", read="kind: Parquet")))
    whole = parquet(pa.table({"v": list(range(1000))}), write_page_checksum=True)
    for position in (0, 40, 2000, len(whole) - 6):
        bad = whole[:position] + bytes([whole[position] ^ 0x40]) + whole[position + 1 :]
        answer = node.post("/local/numbers/ingest", bad, content_type=PARQUET)
        assert problem_of(answer, 422, "invalid-data")["file"] == "body"
    page = pa.table({"v": ["x" * (256 << 20)]})
    bomb = parquet(page, compression="zstd", use_dictionary=False, write_statistics=False)
    answer = node.post("/local/numbers/ingest", bomb, content_type=PARQUET)
    problem = problem_of(answer, 413, "limit-exceeded")
    assert (problem["limit"], problem["field"]) == ("parquet_page_bytes_max", "v")
    pushed = node.post("/local/numbers/ingest", whole, content_type=PARQUET)
    assert (pushed.status_code, pushed.json()["rows"]) == (200, 1000)


def test_names_of_columns(node: NodeProcess, tmp_path: Path) -> None:
    twice = root("named").replace("name: value", "name: CITY")
    problem = problem_of(node.post("/datasets", twice, content_type="application/yaml"), 422, "invalid-manifest")
    assert "differ in case only" in problem["detail"]
    assert problem["field"] == "metadata[0].read.schema"
    long = root("named").replace("name: value", f"name: {'v' * 1025}")
    problem = problem_of(node.post("/datasets", long, content_type="application/yaml"), 413, "limit-exceeded")
    assert problem["limit"] == "column_name_bytes_max"
    (tmp_path / "named.yaml").write_text(twice)
    odf = Odf(options=("--workspace", str(node.workspace)))
    told = odf.refused("add", str(tmp_path / "named.yaml"))
    assert told["file"] == str(tmp_path / "named.yaml")
    node.create(inferred(root("named")))
    answer = node.post("/local/named/ingest", b'{"a": 1, "A": 2}\n', content_type=NDJSON)
    assert "preprocess" in problem_of(answer, 422, "invalid-data")["detail"]
    assert node.http.get("/local/named/tail").json()["data"] == []


def test_columns_that_are_renamed_are_told(node: NodeProcess, tmp_path: Path) -> None:
    node.create(inferred(root("renaming")))
    body = b'{"op": 7, "a": 1}\n'
    first = node.post("/local/renaming/ingest", body, content_type=NDJSON, idempotency_key="one").json()
    assert first["renamedColumns"] == [{"from": "op", "to": "_op"}]
    again = node.post("/local/renaming/ingest", body, content_type=NDJSON, idempotency_key="one").json()
    assert again == first
    (tmp_path / "more.ndjson").write_bytes(body)
    odf = Odf(options=("--workspace", str(node.workspace)))
    told = odf.run("ingest", "renaming", str(tmp_path / "more.ndjson"))
    assert "1 row added; stored `op` as `_op`, for system columns have these names" in told.out
    assert [row["_op"] for row in node.tail("renaming")] == [7, 7]


def test_the_refused_pushes_left_a_whole_dataset(node: NodeProcess, strict: str) -> None:
    assert node.verify(strict) == {"ok": True, "errors": []}
    assert [row["offset"] for row in node.tail(strict)] == [0]


def test_a_key_column_that_is_not_declared(node: NodeProcess) -> None:
    manifest = root("undeclared", merge="{kind: Ledger, primaryKey: [town]}")
    problem = problem_of(node.post("/datasets", manifest, content_type="application/yaml"), 422, "invalid-manifest")
    assert "`town`" in problem["detail"]
    assert node.http.get("/local/undeclared").status_code == 404


def test_a_key_column_that_is_not_in_the_data(node: NodeProcess) -> None:
    query = "preprocess: {kind: Sql, engine: spark, query: 'SELECT CAST(event_time AS TIMESTAMP) event_time, city FROM input'}"
    manifest = root("keyless", merge=f"{{kind: Ledger, primaryKey: [town]}}\n    {query}")
    problem_of(node.post("/datasets", manifest, content_type="application/yaml"), 422, "invalid-manifest")
    # Only the data tell which columns there are.
    node.create(inferred(manifest))
    before = node.head("keyless")
    answer = node.post("/local/keyless/ingest", ndjson([reading(0)]), content_type=NDJSON)
    assert answer.status_code == 422, answer.text
    assert "town" in answer.json()["detail"]
    assert node.head("keyless") == before


def test_a_query_of_a_source_is_judged_when_it_is_declared(node: NodeProcess, tmp_path: Path) -> None:
    query = "preprocess:\n      kind: Sql\n      engine: spark\n      query: |\n        SELECT *,\n          uper(city) c FROM input"
    manifest = root("unread", merge=f"{{kind: Append}}\n    {query}")
    problem = problem_of(node.post("/datasets", manifest, content_type="application/yaml"), 400, "invalid-query")
    place = (
        next(number for number, line in enumerate(manifest.splitlines(), 1) if line.startswith("          uper(")),
        11,
    )
    assert problem["field"] == "metadata[0].preprocess.queries[0]"
    assert (problem["line"], problem["column"]) == place
    (tmp_path / "unread.yaml").write_text(manifest)
    told = Odf(options=("--workspace", str(node.workspace))).refused("add", str(tmp_path / "unread.yaml"))
    assert (told["file"], told["line"], told["column"]) == (str(tmp_path / "unread.yaml"), *place)
    elsewhere = node.create(manifest.replace("engine: spark", "engine: flink"))
    assert elsewhere["alias"] == "local/unread", "another node may have that engine"


def test_a_line_that_is_not_json(node: NodeProcess) -> None:
    node.create(root("lines"))
    before = node.head("lines")
    body = ndjson([reading(0)]) + b'{"event_time": "2026-01-01T00:00:00Z", "city": }\n'
    problem = problem_of(node.post("/local/lines/ingest", body, content_type=NDJSON), 422, "invalid-data")
    assert problem["line"] == 2
    assert node.head("lines") == before


def test_an_archive_without_the_entry(node: NodeProcess, poll_folder: Path) -> None:
    (poll_folder / "entries").mkdir()
    with zipfile.ZipFile(poll_folder / "entries" / "1.zip", "w") as archive:
        archive.writestr("other.csv", csv(reading(0)))
    prepare = "[{kind: Decompress, format: Zip, subPath: rows.csv}]"
    node.create(polled("entries", fetch="{kind: FilesGlob, path: 'entries/*.zip'}", prepare=prepare))
    before = node.head("entries")
    job = node.ended(node.http.post("/local/entries/pull", json={}).json()["job"]["id"])
    assert job["status"] == "failed"
    assert "rows.csv" in job["error"]["detail"]
    assert "1.zip" in job["error"]["detail"]
    assert node.head("entries") == before


def test_files_outside_the_poll_folder_are_refused(node: NodeProcess) -> None:
    for name, path in (("outside", "/etc/*"), ("above", "../../*")):
        answer = node.post(
            "/datasets", polled(name, fetch=f"{{kind: FilesGlob, path: '{path}'}}"), content_type="application/yaml"
        )
        if answer.status_code == 201:
            job = node.ended(node.http.post(f"/local/{name}/pull", json={}).json()["job"]["id"])
            assert (job["status"], "passwd" in str(job["error"])) == ("failed", False)
        else:
            assert answer.status_code == 422


def test_unknown_datasets(node: NodeProcess) -> None:
    for answer in (
        node.http.get("/local/nowhere/tail"),
        node.http.get("/local/nowhere/refs/head"),
        node.post("/local/nowhere/ingest", ndjson([reading(0)]), content_type=NDJSON),
        node.http.post("/local/nowhere/pull", json={}),
    ):
        assert "nowhere" in problem_of(answer, 404, "not-found")["detail"]
    problem = problem_of(node.http.post("/query", json={"query": "SELECT * FROM nowhere"}), 400, "invalid-query")
    assert (problem["line"], problem["column"], "nowhere" in problem["detail"]) == (1, 15, True)


@pytest.fixture(scope="module")
def published(node: NodeProcess) -> Path:
    """The folder of a dataset of the node, as another one may get it on a disk."""
    dataset = node.create(root("published"))["id"]
    node.push("published", [reading(0)])
    name: str = dataset.rpartition(":")[2]
    return node.workspace / "objects" / name


def flip(folder: Path, part: str) -> str:
    """Change one byte in the middle of an object; its name."""
    path = sorted((folder / part).iterdir())[0]
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(damaged)
    return path.name


@pytest.mark.parametrize("part", ["data", "blocks"])
def test_a_copy_from_a_damaged_folder_names_the_object(
    local: LocalWorkspace, published: Path, tmp_path: Path, part: str
) -> None:
    copy = tmp_path / "remote"
    shutil.copytree(published, copy)
    broken = flip(copy, part)
    before = local.odf.json("list")
    problem = local.odf.refused("pull", f"file://{copy}", "--as", "stolen")
    assert broken in problem["detail"], problem
    assert local.odf.json("list") == before


def test_a_damaged_object_is_found_and_named(local: LocalWorkspace) -> None:
    local.odf.json("add", "-", stdin=root("kept", merge=LEDGER).encode())
    local.odf.json("ingest", "kept", "-", stdin=ndjson([reading(0)]))
    assert local.odf.json("verify", "kept") == {"ok": True, "errors": []}
    dataset = local.odf.json("show", "kept")["id"]
    broken = flip(local.folder / "objects" / dataset.rpartition(":")[2], "data")
    found = local.odf.run("-o", "json", "verify", "kept")
    assert (found.code, found.json["ok"]) == (1, False)
    assert [error["object"] for error in found.json["errors"]] == [broken]
    assert found.json["errors"][0].keys() >= {"kind", "dataset", "block", "object", "message"}


def test_the_command_line_names_file_line_and_column(local: LocalWorkspace, tmp_path: Path) -> None:
    manifest = tmp_path / "wrong.yaml"
    manifest.write_text(MANIFESTS[1].sent)
    problem = local.odf.refused("add", str(manifest))
    assert (problem["file"], problem["line"], problem["column"]) == (str(manifest), 8, 5)

    local.odf.json("add", "-", stdin=root("named", read=CSV_READ, merge=LEDGER).encode())
    before = local.odf.json("log", "named")
    data = tmp_path / "wrong.csv"
    data.write_text(csv(GOOD) + "yesterday,A,1\n")
    problem = local.odf.refused("ingest", "named", str(data))
    assert (problem["line"], "wrong.csv" in problem["detail"]) == (3, True), problem
    assert local.odf.json("log", "named") == before

    assert local.odf.refused("ingest", "named", str(tmp_path / "none.csv"))["code"] == "not-found"
    assert local.odf.refused("sql", "SELECT rand() FROM csv.`/etc/passwd`")["code"] == "invalid-query"
    assert local.odf.refused("pull", "nowhere")["code"] == "not-found"


def test_wrong_usage_and_a_node_that_is_away() -> None:
    assert Odf().run("ingest").code == 2
    assert Odf(options=("--node", "http://127.0.0.1:9", "--token", "t")).run("list").code == 3

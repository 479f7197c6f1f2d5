"""A user's story on real processes: create, push, derive, subscribe, query, share."""

from __future__ import annotations

import gzip
import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.formats.webhooks.webhook_signature import parse_secret, verify
from odfabric.model.instant import Instant
from tests.acceptance.conftest import LocalWorkspace, Web
from tests.support.loopback_http import Seen, reply
from tests.support.node_process import NDJSON, NodeProcess, Odf, ndjson
from tests.support.stories import CSV_HEADER, csv, derivative, hourly, polled, reading, root
from tests.support.waiting import wait_until

OURS = ("offset", "op", "system_time")
PARQUET = "application/vnd.apache.parquet"


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the columns that the node adds."""
    return [{name: value for name, value in row.items() if name not in OURS} for row in rows]


def test_the_node_says_what_it_is(node: NodeProcess) -> None:
    assert node.http.get("/system/health").json()["ok"] is True
    assert node.http.get("/info").json()["isMultiTenant"] is True
    assert "/{account}/{dataset}/ingest" in node.http.get("/openapi.json").json()["paths"]
    anonymous = node.http.get("/datasets", headers={"authorization": "Bearer wrong"})
    assert (anonymous.status_code, anonymous.headers["content-type"]) == (401, "application/problem+json")


def test_push_in_three_formats_and_read_back(node: NodeProcess) -> None:
    created = node.create(root("formats"))
    assert created["id"].startswith("did:odf:")
    assert created["alias"] == "local/formats"
    assert created["head"] == node.head("formats")

    rows = [reading(0), reading(1, "B", None)]
    first = node.post("/local/formats/ingest", ndjson(rows), content_type=NDJSON)
    assert (first.status_code, sorted(first.json())) == (200, ["blocks", "changes", "head", "offsets", "rows"])
    assert first.json()["offsets"] == {"start": 0, "end": 1}
    assert first.json()["rows"] == 2
    assert first.json()["head"] == first.json()["blocks"][-1] == node.head("formats")

    # A source that declares another format but a schema takes CSV without a header row.
    without_header = csv(reading(2, "Ü")).removeprefix(CSV_HEADER)
    as_csv = node.post("/local/formats/ingest", without_header, content_type="text/csv; charset=utf-8")
    assert (as_csv.status_code, as_csv.json()["rows"]) == (200, 1), as_csv.text
    table = pa.table(
        {
            "event_time": pa.array([reading_ms(3)], pa.timestamp("ms", "UTC")),
            "city": ["P"],
            "value": pa.array([7], pa.int64()),
        }
    )
    body = io.BytesIO()
    pq.write_table(table, body)
    parquet = node.post("/local/formats/ingest", body.getvalue(), content_type=PARQUET)
    assert (parquet.status_code, parquet.json()["rows"]) == (200, 1), parquet.text

    assert plain(node.tail("formats")) == [*rows, reading(2, "Ü"), reading(3, "P", 7)]
    assert [row["offset"] for row in node.tail("formats")] == [0, 1, 2, 3]
    assert {row["op"] for row in node.tail("formats")} == {0}


def reading_ms(minute: int) -> int:
    return Instant.parse(str(reading(minute)["event_time"])).millis


def test_a_repeated_key_is_the_same_push(node: NodeProcess) -> None:
    node.create(root("keyed"))
    body = ndjson([reading(0)])
    first = node.post("/local/keyed/ingest", body, content_type=NDJSON, idempotency_key="one")
    again = node.post("/local/keyed/ingest", body, content_type=NDJSON, idempotency_key="one")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert len(node.tail("keyed")) == 1

    other = node.post("/local/keyed/ingest", ndjson([reading(1)]), content_type=NDJSON, idempotency_key="one")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert node.head("keyed") == first.json()["head"]


def test_a_push_may_be_answered_before_it_is_done(node: NodeProcess) -> None:
    node.create(root("patient"))
    answer = node.post("/local/patient/ingest", ndjson([reading(0)]), content_type=NDJSON, prefer="respond-async")
    assert answer.status_code == 202
    accepted = answer.json()["job"]
    assert answer.headers["location"] == f"/jobs/{accepted['id']}"
    assert accepted["status"] in ("queued", "running", "succeeded")
    job = node.ended(accepted["id"])
    assert {"id", "kind", "status", "progress", "result", "error"} <= set(job)
    assert (job["status"], job["error"], job["result"]["rows"]) == ("succeeded", None, 1)
    assert job["result"]["head"] == node.head("patient")


@pytest.fixture(scope="module")
def sales(node: NodeProcess) -> str:
    """A root with three pushes, hours derived from it, and their derivatives."""
    node.create(root("sales"))
    node.create(hourly("sales.hourly", of="sales"))
    node.create(derivative("sales.big", of="sales.hourly", query="SELECT * FROM `sales.hourly` WHERE total > 2"))
    node.push("sales", [reading(0), reading(10, "A", 2), reading(20, "B", 5)])
    node.pull("sales.hourly")
    node.push("sales", [reading(70, "A", 3), reading(130)])
    node.pull("sales.hourly")
    node.pull("sales.big")
    node.push("sales", [reading(5, "A", 100), reading(190)])
    node.pull("sales.big", recursive=True)
    return "sales"


def test_derived_data_is_incremental_and_corrected(node: NodeProcess, sales: str) -> None:
    rows = node.tail("sales.hourly")
    late = [(row["op"], row["n"], row["total"]) for row in rows if row["city"] == "A" and "T00:" in row["event_time"]]
    assert late == [(0, 2, 3), (2, 2, 3), (3, 3, 103)]
    assert node.pull("sales.hourly")["upToDate"] is True
    net = node.http.post(
        "/query", json={"query": 'SELECT sum(total) AS total FROM "local/sales.big" WHERE op IN (0, 3)'}
    )
    assert net.status_code == 200, net.text
    assert net.json()["output"]["data"][0]["total"] is not None


def test_metadata_and_queries(node: NodeProcess, sales: str) -> None:
    answer = node.http.get("/local/sales/metadata", params={"include": "Seed,Schema,Vocab", "schemaFormat": "OdfJson"})
    parts = answer.json()["output"]
    assert parts["seed"]["datasetKind"] == "Root"
    names = [found["name"] for found in parts["schema"]["fields"]]
    assert names == ["offset", "op", "system_time", "event_time", "city", "value"]

    asked = {"query": "SELECT city, sum(value) AS v FROM sales GROUP BY city ORDER BY city", "include": ["Input"]}
    found = node.http.post("/query", json=asked)
    assert found.status_code == 200, found.text
    assert found.json()["output"]["data"] == [{"city": "A", "v": 108}, {"city": "B", "v": 5}]
    pinned = found.json()["input"]["datasets"]
    assert [entry["blockHash"] for entry in pinned] == [node.head("sales")]
    assert node.http.get("/query", params={"query": "SELECT 1 AS one"}).json()["output"]["data"] == [{"one": 1}]


def test_everything_verifies(node: NodeProcess, sales: str) -> None:
    for name in ("sales", "sales.hourly", "sales.big"):
        assert node.verify(name) == {"ok": True, "errors": []}


def test_every_head_move_is_delivered_once_and_signed(node: NodeProcess, web: Web) -> None:
    node.create(root("watched"))
    got: dict[str, dict[str, Any]] = {}
    secret = b""

    def receive(seen: Seen) -> bytes:
        event_id = verify(seen.headers, seen.body, secrets=[secret], now=Instant(time.time_ns()))
        got[event_id] = json.loads(seen.body)
        return reply(204)

    web.handlers["/watched"] = receive
    made = node.http.post("/local/watched/subscriptions", json={"url": web.server.url("/watched")})
    assert made.status_code == 201, made.text
    assert made.json().keys() >= {"id", "url", "secret"}
    secret = parse_secret(made.json()["secret"])
    start = node.head("watched")
    # The first push makes two blocks, schema and data: one move.
    heads = [node.push("watched", [reading(minute)])["head"] for minute in range(3)]
    wait_until(lambda: len(got) == len(heads), what="an event for each head move")

    moves = sorted((event["data"] for event in got.values()), key=lambda data: int(data["sequence"]))
    assert [(move["oldHead"], move["newHead"]) for move in moves] == list(zip([start, *heads], heads, strict=False))
    shown = node.http.get("/local/watched/subscriptions").json()["subscriptions"]
    assert [entry["id"] for entry in shown] == [made.json()["id"]]
    assert "secret" not in shown[0]
    assert node.http.delete(f"/local/watched/subscriptions/{made.json()['id']}").status_code == 204


def test_another_workspace_copies_by_the_transfer_protocol(
    node: NodeProcess, local: LocalWorkspace, sales: str
) -> None:
    pulled = local.odf.json("pull", f"{node.url}/local/sales.hourly", "--as", "copy")
    assert (pulled["upToDate"], pulled["head"]) == (False, node.head("sales.hourly"))
    (theirs,) = [found for found in local.odf.json("list") if found["alias"] == "local/copy"]
    assert theirs["head"] == node.head("sales.hourly")
    # The node may also have what a transaction left that another one was ahead of; no chain names it.
    assert objects(local.folder, theirs["id"]).items() <= objects(node.workspace, theirs["id"]).items()
    assert local.odf.json("pull", "copy")["upToDate"] is True
    assert local.odf.json("verify", "copy", "--no-replay") == {"ok": True, "errors": []}


def objects(workspace: Path, dataset: str) -> dict[str, bytes]:
    """Blocks, data and checkpoints of a dataset on disk."""
    folders = [path for path in (workspace / "objects").iterdir() if path.name == dataset.rpartition(":")[2]]
    assert len(folders) == 1
    kept = ("blocks", "data", "checkpoints")
    found = {
        str(path.relative_to(folders[0])): path.read_bytes()
        for path in folders[0].rglob("*")
        if path.is_file() and path.parent.name in kept
    }
    assert {name.partition("/")[0] for name in found} == set(kept)
    return found


def shape(value: object) -> object:
    """Shape of a value: member names, and the shape of a list's first item."""
    match value:
        case dict():
            return {name: shape(member) for name, member in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case bool() | None:
            return str(value)
        case _:
            return type(value).__name__


def test_the_command_line_says_the_same_on_a_node_and_on_a_workspace(
    remote_odf: Odf, local: LocalWorkspace, tmp_path: Path
) -> None:
    manifest = tmp_path / "both.yaml"
    manifest.write_text(
        root("both", merge="{kind: Ledger, primaryKey: [event_time, city]}")
        + "---\n"
        + hourly("both.hourly", of="both")
    )
    data = tmp_path / "rows.ndjson"
    data.write_bytes(ndjson([reading(0), reading(70)]))
    commands: list[tuple[str, ...]] = [
        ("add", str(manifest)),
        # On the node it would follow by itself, and a pull would find nothing new.
        ("flow", "pause", "both.hourly", "transform"),
        ("ingest", "both", str(data)),
        ("ingest", "both", str(data)),
        ("pull", "both.hourly"),
        ("pull", "both.hourly"),
        ("show", "both"),
        ("show", "both.hourly"),
        ("log", "both"),
        ("tail", "both"),
        ("sql", "SELECT city, n FROM `both.hourly`"),
        ("verify", "both", "both.hourly"),
        ("delete", "--yes", "both.hourly"),
    ]
    for command in commands:
        there, here = remote_odf.json(*command), local.odf.json(*command)
        assert shape(here) == shape(there), command
        if command[0] in ("sql", "verify"):
            assert here == there
    assert {frozenset(entry) for entry in [*remote_odf.json("list"), *local.odf.json("list")]} == {
        frozenset({"id", "alias", "kind", "head"})
    }
    missing = "nowhere"
    there, here = remote_odf.refused("tail", missing), local.odf.refused("tail", missing)
    assert there["code"] == here["code"] == "not-found"
    assert missing in there["message"]
    assert missing in here["message"]


def test_rows_that_come_too_late_are_told(local: LocalWorkspace) -> None:
    query = "SELECT /*+ lateness('1 hour') */ window.start AS event_time, median(value) AS m FROM `slow` GROUP BY window(event_time, '1 hour')"
    local.odf.json("add", "-", stdin=root("slow").encode())
    local.odf.json("add", "-", stdin=derivative("slow.hourly", of="slow", query=query).encode())
    for minute in (0, 190):
        local.odf.json("ingest", "slow", "-", stdin=ndjson([reading(minute)]))
    assert "lateRowsDropped" not in local.odf.json("pull", "slow.hourly")
    local.odf.json("ingest", "slow", "-", stdin=ndjson([reading(5, "A", 100), reading(130, "B")]))
    local.odf.json("ingest", "slow", "-", stdin=ndjson([reading(6, "A", 100), reading(250)]))
    shown = local.odf.run("pull", "slow.hourly")
    assert shown.out.strip() == "local/slow.hourly: 2 new rows, 2 late rows dropped"
    assert [row["m"] for row in local.odf.json("tail", "slow.hourly")] == [1, 1, 1]


def test_standard_input_and_readable_output(local: LocalWorkspace) -> None:
    local.odf.json("add", "-", stdin=root("piped").encode())
    assert local.odf.json("ingest", "piped", "-", stdin=ndjson([reading(0)]))["rows"] == 1
    shown = local.odf.run("tail", "piped")
    assert (shown.code, "2026-01-01" in shown.out) == (0, True)


def test_polled_files_zipped_and_packed(node: NodeProcess, poll_folder: Path) -> None:
    (poll_folder / "zipped").mkdir()
    node.create(
        polled("zipped", fetch="{kind: FilesGlob, path: 'zipped/*.zip'}", prepare="[{kind: Decompress, format: Zip}]")
    )
    write_zip(poll_folder / "zipped" / "1.zip", "rows.csv", csv(reading(0)))
    assert node.pull("zipped")["rows"] == 1
    assert node.pull("zipped")["upToDate"] is True
    write_zip(poll_folder / "zipped" / "2.zip", "rows.csv", csv(reading(1), reading(2)))
    write_zip(poll_folder / "zipped" / "3.zip", "rows.csv", csv(reading(3)))
    assert node.pull("zipped")["rows"] == 3
    assert plain(node.tail("zipped")) == [reading(minute) for minute in range(4)]

    (poll_folder / "packed").mkdir()
    node.create(
        polled("packed", fetch="{kind: FilesGlob, path: 'packed/*.gz'}", prepare="[{kind: Decompress, format: Gzip}]")
    )
    (poll_folder / "packed" / "1.csv.gz").write_bytes(gzip.compress(csv(reading(0)).encode()))
    assert node.pull("packed")["rows"] == 1


def write_zip(path: Path, entry: str, text: str) -> None:
    pending = path.with_suffix(".pending")
    with zipfile.ZipFile(pending, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, text)
    pending.rename(path)


def test_a_polled_page_is_read_again_only_when_its_tag_changed(node: NodeProcess, web: Web) -> None:
    page = {"tag": '"1"', "text": csv(reading(0))}
    answers: list[int] = []

    def serve(seen: Seen) -> bytes:
        known = seen.headers.get("if-none-match") == page["tag"]
        answers.append(304 if known else 200)
        tag = {"ETag": page["tag"]}
        return reply(304, headers=tag) if known else reply(200, page["text"].encode(), tag)

    web.handlers["/page.csv"] = serve
    node.create(
        polled(
            "page",
            fetch=f"{{kind: Url, url: '{web.server.url('/page.csv')}'}}",
            merge="{kind: Ledger, primaryKey: [event_time]}",
        )
    )
    assert node.pull("page")["rows"] == 1
    assert node.pull("page")["upToDate"] is True
    page.update(tag='"2"', text=csv(reading(0), reading(1)))
    assert node.pull("page")["rows"] == 1
    assert answers == [200, 304, 200]
    assert plain(node.tail("page")) == [reading(0), reading(1)]

"""A query that is too expensive costs others no answer.

Though the engine has to be started again.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.node_process import NDJSON, NodeProcess, Odf, ndjson, node_process
from tests.support.stories import reading, root

NEVER_LOOKS = r"concat(repeat('a', 64), '!') rlike r'^(a|aa)+\1$'"
"""Work that nothing but the end of its process can end."""
GRACE = '{"grace_s": 0.2}'
"""An engine that gives itself up soon after the limit of such a query."""
INPUTS = [{"alias": "a", "schema": "event_time TIMESTAMP, k STRING"}]


def line(name: str, query: str) -> str:
    return json.dumps({"id": name, "queries": query, "inputs": INPUTS}) + "\n"


def test_every_line_of_a_batch_has_its_own_answer(tmp_path: Path, engine_cache: Path) -> None:
    plain = "SELECT event_time, k FROM a"
    batch = "".join(line(f"good-{number}", plain) for number in range(6))
    batch += line("expensive-0", f"{plain} WHERE {NEVER_LOOKS}")
    batch += "".join(line(f"good-{number}", plain) for number in range(6, 20))
    batch += line("expensive-1", f"{plain} WHERE {NEVER_LOOKS}")
    batch += "".join(line(f"good-{number}", plain) for number in range(20, 40))
    limits = {"ODF_ENGINE_VALIDATE_S_MAX": "25", "ODF_ENGINE_OPTIONS": GRACE, "ODF_ENGINE_CACHE": str(engine_cache)}
    odf = Odf(options=("--workspace", str(tmp_path / "none")), environment=limits, folder=tmp_path)
    ran = odf.run("engine", "validate", "--batch", "-", stdin=batch.encode())
    answers = [json.loads(each) for each in ran.out.splitlines()]
    assert [answer["id"] for answer in answers] == [json.loads(each)["id"] for each in batch.splitlines()], ran.err
    refused = {answer["id"]: answer["errors"][0] for answer in answers if not answer["ok"]}
    assert set(refused) == {"expensive-0", "expensive-1"}, refused
    for problem in refused.values():
        assert (problem["rule"], problem["hint"]) == ("limit-exceeded", "limit engine_validate_s_max = 25")


def ask(node: NodeProcess, query: str) -> tuple[int, str]:
    answer = node.post("/query", json.dumps({"query": query}), content_type="application/json")
    return answer.status_code, answer.text


def test_queries_and_pushes_of_others_outlive_an_engine_that_gives_itself_up(
    tmp_path: Path, engine_cache: Path
) -> None:
    environment = {"ODF_QUERY_WALL_S_MAX": "25", "ODF_ENGINE_OPTIONS": GRACE, "ODF_ENGINE_CACHE": str(engine_cache)}
    with node_process(tmp_path / "workspace", **environment) as node, ThreadPoolExecutor(4) as threads:
        node.create(root("shared"))
        node.push("shared", [reading(0)])
        first = node.one("odfabric_engine_spark")
        ended = threading.Event()

        def neighbour() -> Counter[tuple[int, str]]:
            """Asks until the expensive query has its answer, and once more."""
            seen: Counter[tuple[int, str]] = Counter()
            is_last = False
            while not is_last:
                is_last = ended.is_set()
                status, text = ask(node, "SELECT count(*) AS n FROM shared")
                seen[status, text if status != 200 else ""] += 1
            return seen

        neighbours = [threads.submit(neighbour) for _ in range(2)]
        status, text = ask(node, f"SELECT {NEVER_LOOKS} AS never")
        job = node.post(
            "/local/shared/ingest", ndjson([reading(1)]), content_type=NDJSON, prefer="respond-async"
        ).json()["job"]["id"]
        ended.set()
        assert (status, json.loads(text)["limit"]) == (422, "query_wall_s_max"), text
        for each in neighbours:
            assert set(each.result()) == {(200, "")}
        pushed = node.ended(job)
        assert (pushed["status"], pushed["attempts"]) == ("succeeded", 1)
        assert node.one("odfabric_engine_spark") != first, "the engine never gave itself up"
        assert len(node.tail("shared")) == 2

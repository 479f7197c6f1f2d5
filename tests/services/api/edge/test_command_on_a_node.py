"""The command line's verbs on a node: requests, and use of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from odfabric.cli.backends.backend import JobFailed, PushFile, VerifyWish
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.errors import Indeterminate
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.intercepting import Network, send_through
from tests.usecases.manifests import DERIVED, ROOT


class LastAnswerLost(Network):
    """A node that dies after the first POST's effect and before its answer."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        super().__init__(inner)
        self._lost = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if request.method == "POST" and not self._lost:
            self._lost = True
            answer.close()
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return answer


def test_a_verification_whose_answer_is_lost_is_asked_for_again(memory: MemoryNode, backend: NodeBackend) -> None:
    memory.add(ROOT.replace("name: readings", "name: asked-twice"))
    backend.show("asked-twice")
    send_through(backend, LastAnswerLost)
    assert backend.verify("asked-twice", VerifyWish(replay=False))["ok"] is True


def test_a_push_whose_answer_is_lost_is_not_repeated_unasked(
    memory: MemoryNode, backend: NodeBackend, tmp_path: Path
) -> None:
    memory.add(ROOT.replace("name: readings", "name: pushed-once"))
    backend.show("pushed-once")
    path = tmp_path / "rows.ndjson"
    path.write_text("")
    push = PushFile(
        path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
    )
    send_through(backend, LastAnswerLost)
    with pytest.raises(Indeterminate, match="broke off"):
        backend.push("pushed-once", push)


def test_a_problem_names_the_file_that_was_pushed(memory: MemoryNode, backend: NodeBackend, tmp_path: Path) -> None:
    memory.add(ROOT.replace("name: readings", "name: pushed"))
    path = tmp_path / "rows.ndjson"
    path.write_text("{oops\n")
    push = PushFile(
        path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
    )
    with pytest.raises(JobFailed) as refused:
        backend.push("pushed", push)
    document = refused.value.document
    assert document["file"] == str(path)
    assert str(document["detail"]).startswith(f"{path}, ")
    assert [error["file"] for error in document["errors"]] == [str(path)]  # type: ignore[attr-defined]


def test_names_are_shown_as_they_are_spelt(memory: MemoryNode, backend: NodeBackend) -> None:
    memory.add(ROOT.replace("name: readings", "name: Spelt"))
    assert backend.show("spelt")["alias"] == "local/Spelt"
    assert backend.delete("SPELT")["alias"] == "local/Spelt"


def test_a_transform_is_changed_and_a_refusal_names_the_file(
    memory: MemoryNode, backend: NodeBackend, tmp_path: Path
) -> None:
    memory.add(ROOT.replace("name: readings", "name: source"))
    derived = DERIVED.replace("readings", "source").replace("name: copied", "name: changed")
    path = tmp_path / "changed.yaml"
    path.write_text(derived)
    backend.add(str(path))
    path.write_text("---\n".join([ROOT, derived.replace("SELECT *", "SELECT  *")]))
    (changed,) = backend.set_transform(str(path))
    assert (changed["alias"], changed["verdict"], len(changed["blocks"])) == ("local/changed", None, 1)  # type: ignore[arg-type]
    path.write_text(derived.replace("SELECT *", "SELECT nothing"))
    with pytest.raises(JobFailed) as refused:
        backend.set_transform(str(path))
    document = refused.value.document
    line = path.read_text().splitlines()[document["line"] - 1]  # type: ignore[operator]
    assert line[document["column"] - 1 :].startswith("SELECT nothing")  # type: ignore[operator]
    assert (document["file"], document["queryLine"], document["queryColumn"]) == (str(path), 1, 1)
    assert str(document["detail"]).startswith(f"{path}, line ")


def test_all_that_is_wrong_with_queries_has_its_place_in_the_file(
    memory: MemoryNode, backend: NodeBackend, tmp_path: Path
) -> None:
    memory.add(ROOT.replace("name: readings", "name: spring"))
    queries = "queries: [{alias: first, query: SELECT 1}, {query: SELECT 2}]"
    derived = DERIVED.replace("readings", "spring").replace("query: SELECT * FROM spring", queries)
    path = tmp_path / "wrong.yaml"
    path.write_text(derived)
    with pytest.raises(JobFailed) as refused:
        backend.add(str(path))
    errors = refused.value.document["errors"]
    assert isinstance(errors, list)
    lines = path.read_text().splitlines()
    found = [lines[each["line"] - 1][each["column"] - 1 :][:8] for each in errors]
    assert found == ["SELECT 1", "SELECT 2"]
    assert {(each["file"], each["suggestion"]) for each in errors} == {(str(path), "SELECT * FROM spring")}


def test_an_input_of_others_is_not_deleted(memory: MemoryNode, backend: NodeBackend) -> None:
    memory.add(ROOT.replace("name: readings", "name: feeding"))
    memory.add(DERIVED.replace("readings", "feeding").replace("name: copied", "name: fed"))
    with pytest.raises(JobFailed, match="local/feeding is an input of local/fed"):
        backend.delete("feeding")


def test_manifests_before_a_wrong_one_are_told(memory: MemoryNode, backend: NodeBackend, tmp_path: Path) -> None:
    memory.add(ROOT.replace("name: readings", "name: taken"))
    path = tmp_path / "two.yaml"
    path.write_text("---\n".join(ROOT.replace("name: readings", f"name: {name}") for name in ("first", "taken")))
    with pytest.raises(JobFailed) as refused:
        backend.add(str(path))
    assert refused.value.document["hint"] == "created before it: local/first"
    assert "local/taken exists (created before it: local/first)" in str(refused.value)


class TriedAgain(Network):
    """A node whose job has failed once when it is looked at first."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        super().__init__(inner)
        self._has_failed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/jobs/") and not self._has_failed:
            self._has_failed = True
            error = {"message": "nobody answers", "retry": {"pauseS": 5, "attempt": 2, "of": 8}}
            return httpx.Response(200, json={"status": "queued", "progress": None, "result": None, "error": error})
        return super().handle_request(request)


def test_a_job_that_waits_for_another_attempt_says_why(
    memory: MemoryNode, backend: NodeBackend, told: list[Mapping[str, object]]
) -> None:
    memory.add(ROOT.replace("name: readings", "name: tried-again"))
    send_through(backend, TriedAgain)
    backend.verify("tried-again", VerifyWish(replay=False))
    assert told[0] == {"stage": "trying again in 5 s, attempt 2 of 8: nobody answers"}


def test_cursors_are_made_read_and_deleted(memory: MemoryNode, backend: NodeBackend) -> None:
    memory.add(ROOT.replace("name: readings", "name: consumed-by-command"))
    verbs, ref = backend.cursors, "consumed-by-command"
    made = verbs.create(ref, "warehouse", start="baseline")
    held = verbs.claim(ref, "warehouse", fence=str(made["fence"]))
    fetched = verbs.fetch(ref, "warehouse", fence=str(held["fence"]), limit=None)
    assert fetched["event"]["rows"] == []  # type: ignore[index]
    moved = verbs.acknowledge(ref, "warehouse", fence=str(held["fence"]), position=str(fetched["position"]))
    assert moved["mode"] == "listen"
    assert [cursor["position"] for cursor in verbs.listed(ref)] == [moved["position"]]
    with pytest.raises(JobFailed) as refused:
        verbs.fetch(ref, "warehouse", fence=str(made["fence"]), limit=1)
    assert refused.value.document["code"] == "lease-lost"
    assert verbs.delete(ref, "warehouse") == {"consumer": "warehouse"}
    assert verbs.listed(ref) == []


def test_variables_are_set_listed_and_removed_and_secrets_are_not_read_back(
    memory: MemoryNode, backend: NodeBackend, client: httpx.Client
) -> None:
    memory.add(ROOT.replace("name: readings", "name: with-variables"))
    made = backend.variables.set("with-variables", "TOKEN", "a secret", secret=True)
    assert (made["name"], made["secret"], "value" in made) == ("TOKEN", True, False)
    assert backend.variables.set("with-variables", "HOST", "data.example", secret=False)["value"] == "data.example"
    found = backend.variables.listed("with-variables")
    assert [(each["name"], each.get("value")) for each in found] == [("HOST", "data.example"), ("TOKEN", None)]
    assert "a secret" not in client.get("/local/with-variables/variables").text
    backend.variables.remove("with-variables", "TOKEN")
    with pytest.raises(JobFailed, match="variable not found: TOKEN"):
        backend.variables.remove("with-variables", "TOKEN")

"""What other nodes are asked, and which of their answers count."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.remote_nodes import ANSWER_BYTES_MAX, HttpRemoteNodes
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Unauthenticated,
)
from odfabric.model.identity import DatasetId, Name
from odfabric.ports.transfer.nodes import QueuedAnswer
from tests.support.loopback_http import LoopbackServer, Seen, reply

DATASET = DatasetId(bytes(32))
Respond = Callable[[Seen], bytes]


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def node(
    servers: ExitStack, respond: Respond, *, token: str | None = "t0ken"
) -> tuple[HttpRemoteNodes, LoopbackServer]:
    server = servers.enter_context(LoopbackServer(respond).serving())
    egress = servers.enter_context(Egress(allow=[server.place]))
    return HttpRemoteNodes(egress, token_of=lambda url: token if url.startswith(server.url("/")) else None), server


def answering(answers: dict[str, object]) -> Respond:
    def respond(seen: Seen) -> bytes:
        found = answers.get(seen.target)
        return reply(404, b"{}") if found is None else reply(200, json.dumps(found).encode())

    return respond


def test_the_four_questions(servers: ExitStack) -> None:
    listed = {"datasets": [{"id": "did:odf:x", "alias": "bob/flights", "kind": "Root"}, {"alias": 7}, "junk"]}
    asked, server = node(
        servers,
        answering(
            {
                "/odf/info": {"isMultiTenant": True},
                "/odf/accounts/me": {"accountName": "carol"},
                f"/odf/datasets/{DATASET}": {"datasetName": "flights"},
                "/odf/datasets?q=fl&limit=5": listed,
            }
        ),
    )
    url = f"odf+{server.url('/odf')}"
    assert asked.has_accounts(url)
    assert (asked.own_account(url), asked.name_of(url, DATASET)) == (Name("carol"), Name("flights"))
    assert [(each.alias, each.id, each.kind) for each in asked.search(url, "fl", limit=5)] == [
        ("bob/flights", "did:odf:x", "Root")
    ]
    assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken"}


def test_refusals_say_nothing_of_the_node(servers: ExitStack) -> None:
    for status in (400, 401, 403, 404):
        asked, server = node(servers, lambda seen, status=status: reply(status, b"no"), token=None)  # type: ignore[misc]
        url = server.url("/")
        assert (asked.has_accounts(url), asked.own_account(url), asked.name_of(url, DATASET)) == (False, None, None)
        assert all("authorization" not in seen.headers for seen in server.seen)


def test_a_token_that_is_not_valid_there_is_said(servers: ExitStack) -> None:
    asked, server = node(servers, lambda seen: reply(401, b"no"))
    with pytest.raises(Unauthenticated) as refused:
        asked.search(server.url("/"), "", limit=5)
    assert f"`odf login {server.url('').rstrip('/')}`" in str(refused.value.hint)
    assert "t0ken" not in str(refused.value)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[" * 100_000, b'{"accountName": "../x"}', b'{"accountName": 7}', b"[]"]
)
def test_an_answer_that_is_none_is_named(servers: ExitStack, body: bytes) -> None:
    asked, server = node(servers, lambda seen: reply(200, body))
    with pytest.raises(CorruptedSource) as refused:
        asked.own_account(server.url("/"))
    assert server.place in str(refused.value)


def test_answers_are_bounded_and_faults_are_repeated_later(servers: ExitStack) -> None:
    asked, server = node(servers, lambda seen: reply(200, b" " * (ANSWER_BYTES_MAX + 1)))
    with pytest.raises(LimitExceeded):
        asked.has_accounts(server.url("/"))
    asked, server = node(servers, lambda seen: reply(503))
    with pytest.raises(Determinate):
        asked.has_accounts(server.url("/"))


def test_a_token_does_not_follow_a_redirect(servers: ExitStack) -> None:
    other = servers.enter_context(LoopbackServer(lambda seen: reply(200, b"{}")).serving())
    server = servers.enter_context(
        LoopbackServer(lambda seen: reply(302, b"", {"Location": other.url("/info")})).serving()
    )
    egress = servers.enter_context(Egress(allow=[server.place, other.place]))
    HttpRemoteNodes(egress, token_of=lambda url: "t0ken").has_accounts(server.url("/"))
    assert [seen.headers.get("authorization") for seen in other.seen] == [None]


def test_inner_addresses_are_refused() -> None:
    with Egress() as egress, pytest.raises(AccessDenied):
        HttpRemoteNodes(egress, token_of=lambda url: None).has_accounts("odf+http://127.0.0.1/")


QUESTION = {"offsets": [1], "hops": 1}


def ask(asked: HttpRemoteNodes, url: str, *, with_key: bool = True, seconds_max: float = 10.0) -> object:
    return asked.why(url, QUESTION, with_key=with_key, seconds_max=seconds_max, bytes_max=1000)


@pytest.mark.parametrize("with_key", [True, False])
def test_why_is_asked_with_a_key_where_it_may_be(with_key: bool, servers: ExitStack) -> None:
    asked, server = node(servers, lambda seen: reply(200, b'{"records": []}'))
    assert ask(asked, f"odf+{server.url('/odf/bob/flights/')}", with_key=with_key) == {"records": []}
    (seen,) = server.seen
    assert (seen.target, json.loads(seen.body)) == ("/odf/bob/flights/why", QUESTION)
    assert seen.headers.get("authorization") == ("Bearer t0ken" if with_key else None)
    assert (asked.has_key(f"odf+{server.url('/x')}"), asked.has_key("http://other.test/")) == (True, False)


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (reply(202, b"{}"), CorruptedSource),
        (reply(202, b'{"job": {"id": "../x"}}'), CorruptedSource),
        (reply(500, b""), Determinate),
        (reply(404, b""), NotFound),
        (reply(403, b""), AccessDenied),
        (reply(307, b"", headers={"location": "http://other.test/"}), InvalidRequest),
        (reply(200, b"<html>"), CorruptedSource),
        (reply(200, b'{"a": NaN}'), CorruptedSource),
        (reply(200, b"[" * 900), CorruptedSource),
        (reply(200, b" " * 1001), LimitExceeded),
        (b"", Determinate),
    ],
)
def test_answers_to_why_that_are_none(respond: bytes, error: type[OdfError], servers: ExitStack) -> None:
    asked, server = node(servers, lambda seen: respond)
    with pytest.raises(error):
        ask(asked, server.url("/bob/flights"))
    assert len(server.seen) == 1


class Working:
    """A node whose answer is a job, and the clock of the one that waits for it."""

    def __init__(self, servers: ExitStack, *statuses: str) -> None:
        self.statuses = list(statuses)
        self.asked: list[str] = []
        self.now, self.looks = 0.0, 0
        self.server = servers.enter_context(LoopbackServer(self.respond).serving())
        egress = servers.enter_context(Egress(allow=[self.server.place]))
        self.node = HttpRemoteNodes(egress, token_of=lambda url: "t0ken", pause=self.pause, clock=lambda: self.now)
        self.url = self.server.url("/odf/bob/flights")

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def respond(self, seen: Seen) -> bytes:
        self.asked.append(seen.target)
        assert seen.headers["authorization"] == "Bearer t0ken"
        match seen.target:
            case "/odf/bob/flights/why":
                return reply(202, b'{"job": {"id": "j1", "status": "queued"}}')
            case "/odf/jobs/j1":
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                error = {"status": 422, "message": "too many rows"} if status == "failed" else None
                return (
                    reply(404)
                    if status == "gone"
                    else reply(200, json.dumps({"status": status, "error": error}).encode())
                )
            case "/odf/jobs/j1/answer":
                return reply(200, b'{"records": []}')
        return reply(500)

    def look(self) -> None:
        self.looks += 1

    def wait(self, seconds_max: float = 60.0) -> object:
        return self.node.queued_why(
            self.url,
            QueuedAnswer(job="j1"),
            with_key=True,
            seconds_max=seconds_max,
            bytes_max=1000,
            waiting=self.look,
        )


def test_a_job_is_followed_to_its_answer(servers: ExitStack) -> None:
    working = Working(servers, "queued", "running", "succeeded")
    assert ask(working.node, working.url) == QueuedAnswer(job="j1")
    assert working.wait() == {"records": []}
    assert working.looks == 2
    assert working.asked[-1] == "/odf/jobs/j1/answer"


def test_the_wait_for_a_job_is_bounded_and_goes_on_when_asked_again(servers: ExitStack) -> None:
    working = Working(servers, "running")
    ask(working.node, working.url)
    assert working.wait(5.0) is None
    assert working.now == 5.0
    assert ask(working.node, working.url) == QueuedAnswer(job="j1")
    assert working.asked.count("/odf/bob/flights/why") == 1, "the job is remembered"
    working.statuses = ["succeeded"]
    assert ask(working.node, working.url) == QueuedAnswer(job="j1")
    assert working.wait() == {"records": []}
    ask(working.node, working.url)
    assert working.asked.count("/odf/bob/flights/why") == 2, "an answer is given once"


@pytest.mark.parametrize(
    ("status", "error"), [("failed", InvalidRequest), ("cancelled", Determinate), ("gone", Determinate)]
)
def test_a_job_that_ends_without_an_answer(status: str, error: type[OdfError], servers: ExitStack) -> None:
    working = Working(servers, status)
    with pytest.raises(error):
        working.wait()
    ask(working.node, working.url)
    ask(working.node, working.url)
    assert working.asked.count("/odf/bob/flights/why") == 2, "it is asked for afresh"


def test_a_wait_may_be_broken_off(servers: ExitStack) -> None:
    class Left(Exception):
        pass

    def leave() -> None:
        raise Left

    working = Working(servers, "running")
    working.look = leave  # type: ignore[method-assign]
    with pytest.raises(Left):
        working.wait()

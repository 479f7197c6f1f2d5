"""An unreadable dataset looks like a missing one.

Whole answers are compared, and the calls of ports that they cost.

Three datasets are asked for by names of one length: one that is there and hidden, one that is not there, one whose name cannot be. Strangers
get one answer for the three; anyone who has an account is informed of the third that its name is wrong, which gives the grammar of names only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.secrets.access_token import make
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole
from odfabric.model.people.credential import Scope, TokenKind
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node
from odfabric.wiring.node_ports import intercepted
from odfabric_api.page_route import PageRoute
from tests.services.api.documented import ROUTES
from tests.services.api.intercepting import Calls
from tests.services.api.needs import ANY_HASH, ANY_ID
from tests.services.api.people import People, Scene
from tests.services.api.rules import RULES
from tests.services.api.serving import Served, serving
from tests.usecases.manifests import DERIVED, ROOT

HIDDEN, ABSENT, IMPOSSIBLE = "hidden-one", "absent-one", "impos--ble"
ABSENT_ID = DatasetId(bytes(range(32)))
LONG = 20_000
ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@dataclass(frozen=True, slots=True)
class World:
    """A node on which ann has a private dataset with rows."""

    people: People
    served: Served
    calls: Calls
    hidden: Scene

    def kept_out(self) -> Mapping[str, dict[str, str]]:
        """Credentials of those who may not read it."""
        people, other = self.people, frozenset({self.hidden.other.id})
        return {
            "stranger": {},
            "pia": people.bearer("pia"),
            "pia, reading": people.bearer("pia", scopes=frozenset({Scope.READ})),
            "ann, another dataset": people.bearer("ann", datasets=other),
            "admin, not as such": people.bearer("root", scopes=frozenset({Scope.MANAGE})),
            "admin, another dataset": people.bearer("root", datasets=other),
            "acme": people.bearer("acme"),
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    limits = {"json_body_bytes_max": LONG, "manifest_bytes_max": LONG, "push_body_bytes_max": LONG}
    people = People(tmp_path_factory.mktemp("node"), **limits)
    entry, other = people.add("ann", HIDDEN), people.add("ann", "other")
    hidden = Scene(owner="user", is_public=False, entry=entry, other=other, grants=())
    push(people, entry.alias)
    calls = Calls()
    with serving(Node(intercepted(people.node.ports, calls), people.memory.settings)) as served:
        yield World(people, served, calls, hidden)


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with world.served.client(None) as found:
        yield found


def push(people: People, alias: DatasetAlias) -> None:
    entry = people.node.datasets.resolve(alias)
    job = people.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])))
    assert isinstance(job, Job)
    people.memory.finish(job)


def whole(answer: httpx.Response, **names: str) -> tuple[int, str, str]:
    """All of an answer but its time; what was asked for is replaced."""
    headers = str(sorted((key, value) for key, value in answer.headers.items() if key not in ("date", "x-request-id")))
    body = answer.text
    for name, value in names.items():
        headers, body = headers.replace(value, name), body.replace(value, name)
    return answer.status_code, headers, body


# Routes of datasets, by name and by id.

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "valid": {},
    "an unknown parameter": {"params": {"nonsense": "1"}},
    "a parameter twice": {"params": [("limit", "1"), ("limit", "1")]},
    "wrong values": {"params": "every"},
    "no JSON": {"content": b"{", "headers": {"content-type": "application/json"}},
    "another JSON": {"content": b'[{"a":1}]', "headers": {"content-type": "application/json"}},
    "no UTF-8": {"content": b"\xff\xfe"},
    "no body": {"content": b""},
    "a body of another type": {"content": b"x", "headers": {"content-type": "image/png"}},
    "a compressed body": {"content": b"x", "headers": {"content-encoding": "gzip"}},
    "a long body": {"content": b" " * (LONG + 1)},
    "known to the caller": {"headers": {"if-none-match": "*"}},
    "a known tag": {"headers": {"if-none-match": f'"{ANY_HASH}"'}},
    "another head": {"headers": {"if-match": ANY_HASH}},
    "no head": {"headers": {"if-match": "nonsense"}},
    "another version": {"headers": {"if-match": '"v1"'}},
    "a range": {"headers": {"range": "bytes=0-1"}},
    "a range behind the end": {"headers": {"range": "bytes=999999999-"}},
    "no range": {"headers": {"range": "lines=1"}},
    "a key": {"headers": {"idempotency-key": "k"}},
    "a long key": {"headers": {"idempotency-key": "k" * 300}},
    "no time": {"headers": {"odf-event-time": "yesterday"}},
    "without waiting": {"headers": {"prefer": "respond-async"}},
    "a browser": {"headers": {"accept": "text/html"}},
    "another page": {"headers": {"origin": "https://elsewhere.example"}},
}
ANY_VARIANT = ("stranger", "pia", "ann, another dataset")
OF_PAGES = ("valid", "wrong values", "no UTF-8", "a browser", "another page")
"""Variants of requests for pages, which know none of the headers of the others."""
OF_DATASETS = [
    (method, route) for route in ROUTES for method in sorted(route.methods or ()) if "{dataset" in route.path
]


def varied(world: World, method: str, route: APIRoute, variant: str) -> dict[str, Any]:
    asked = RULES[method, route.path].request(world.hidden)
    given = dict(VARIANTS[variant])
    if given.get("params") == "every":
        names = [parameter.alias for parameter in route.dependant.query_params]
        given["params"] = dict.fromkeys(names, "\x00nonsense") or {"nonsense": "1"}
    if "content" in given:
        asked.pop("json", None)
    asked["headers"] = {**asked["headers"], **given.pop("headers", {})}
    return {**asked, **given}


def path_of(world: World, method: str, route: APIRoute, name: str) -> str:
    rule, scene = RULES[method, route.path], world.hidden
    if "{dataset_id}" in route.path:
        ids = {HIDDEN: str(scene.entry.id), ABSENT: str(ABSENT_ID), IMPOSSIBLE: str(ABSENT_ID)[:-3] + "!!!"}
        return route.path.replace("{dataset_id}", ids[name])
    return replace(rule, path={**rule.path, "dataset": name}).url(route.path, scene)


@pytest.mark.parametrize(("method", "route"), OF_DATASETS, ids=lambda value: getattr(value, "path", value))
def test_a_hidden_dataset_looks_like_a_missing_one(
    world: World, client: httpx.Client, method: str, route: APIRoute
) -> None:
    kept_out = world.kept_out()
    for variant in OF_PAGES if isinstance(route, PageRoute) else VARIANTS:
        asked = varied(world, method, route, variant)
        for who, credential in kept_out.items():
            if variant == "valid" or who in ANY_VARIANT:
                assert_hidden(world, client, method, route, asked, f"{who}, {variant}", credential)


def assert_hidden(
    world: World,
    client: httpx.Client,
    method: str,
    route: APIRoute,
    asked: dict[str, Any],
    who: str,
    credential: Mapping[str, str],
) -> None:
    seen = {}
    for name in (HIDDEN, ABSENT, IMPOSSIBLE):
        world.calls.seen.clear()
        path = path_of(world, method, route, name)
        request = {**asked, "headers": {**asked["headers"], **credential}}
        answer = client.request(method, path, **request)
        shown = path.split("/")[2] if "{dataset_id}" in route.path else name
        seen[name] = (whole(answer, NAME=shown), tuple(world.calls.seen))
    assert seen[HIDDEN] == seen[ABSENT], who
    assert 400 <= seen[HIDDEN][0][0] < 500
    assert credential or seen[IMPOSSIBLE][0] == seen[HIDDEN][0]


# The same request before and after something hidden is made.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that could notice it."""

    method: str
    path: str
    given: Mapping[str, Any] = field(default_factory=dict)


def derived(name: str, *inputs: str) -> dict[str, Any]:
    refs = ", ".join(f"{{datasetRef: '{each}', alias: readings}}" for each in inputs)
    text = DERIVED.replace("name: copied", f"name: {name}").replace("[{datasetRef: readings}]", f"[{refs}]")
    return {"content": text, "headers": {"content-type": "application/yaml"}}


def battery(hidden: DatasetId) -> Iterator[Asked]:
    """`hidden` is the id of what is there or is not."""
    name, late = "ann/late-one", "late-one"
    for limit in (1, 2, 3, 100):
        yield Asked(method="GET", path=f"/datasets?limit={limit}")
        yield Asked(method="GET", path=f"/datasets?limit={limit}&after=ann/late-onf")
    yield Asked(method="GET", path=f"/datasets?after={name.replace('/', '%2F')}")
    for looked_for in ("q=late", "q=one&account=ann", "kind=root", "changed=day"):
        for path in ("/datasets", "/-/datasets.atom"):
            yield Asked(method="GET", path=f"{path}?{looked_for}")
    for text in (f"select * from `{name}`", f"SELECT * FROM {late}", f"SELECT * FROM `{name}`, public-one"):
        yield Asked(method="GET", path="/query", given={"params": {"query": text}})
        yield Asked(method="POST", path="/query", given={"json": {"query": text}})
    for block in (None, ANY_HASH):
        pinned = [{"id": str(hidden), "alias": "readings", "blockHash": block}]
        yield Asked(
            method="POST", path="/query", given={"json": {"query": "SELECT * FROM readings", "datasets": pinned}}
        )
    for reference in (name, f"ANN/{late.upper()}", str(hidden)):
        yield Asked(method="POST", path="/datasets", given=derived("mine", reference))
        yield Asked(method="POST", path="/datasets", given=derived("mine", reference, "ann/nothing"))
        yield Asked(method="PUT", path="/pia/derived/transform", given=derived("derived", reference))
        yield Asked(method="POST", path="/tokens", given={"json": {"name": "x", "datasets": [reference]}})
        yield Asked(
            method="POST", path="/tokens", given={"json": {"name": "x", "datasets": [reference], "account": "acme"}}
        )
    manifest = {"content": ROOT.replace("name: readings", f"name: {name}"), "headers": {"content-type": "text/yaml"}}
    yield Asked(method="POST", path="/datasets", given=manifest)
    yield Asked(method="PUT", path=f"/{name}/sources", given=manifest)
    for body in ({}, {"url": "https://node.example/a/b"}):
        yield Asked(method="POST", path=f"/{name}/pull", given={"json": body})
    for path in (
        "/admin/audit",
        f"/admin/explain?dataset={name}",
        f"/datasets/{hidden}",
        f"/{name}/tail",
        "/accounts/ann",
    ):
        yield Asked(method="GET", path=path)
    yield Asked(method="DELETE", path=f"/datasets/{hidden}")


def harmless(hidden: DatasetId) -> Iterator[Asked]:
    """Those of the battery that its owner can make without making or deleting it."""
    return (asked for asked in battery(hidden) if asked.method == "GET" or asked.path in ("/query", "/tokens"))


def test_nothing_tells_that_something_hidden_was_made(world: World, client: httpx.Client) -> None:
    """Lists, counts, pages, queries, inputs, tokens, the audit."""
    people = world.people
    public = people.add("ann", "public-one")
    people.grant(public, "*", DatasetRole.READER)
    people.add("pia", "base")
    people.add("pia", "derived", manifest=DERIVED.replace("readings", "pia/base"))
    kept_out = world.kept_out()
    key = people.node.ports.keys.create()
    identity = DatasetId(key.public)
    owner = {"ann": people.bearer("ann")}
    told_before = noticed(client, harmless(identity), owner, world)
    noticed(client, battery(identity), kept_out, world)  # what a process remembers of chains is known from now on
    before = noticed(client, battery(identity), kept_out, world)
    people.node.ports.keys.create = lambda: key  # type: ignore[method-assign]
    late = people.add("ann", "late-one")
    del people.node.ports.keys.create
    assert late.id == identity
    push(people, late.alias)
    people.node.requests.verify(late, VerifyOptions(), by=people.subject("ann"))
    people.node.webhooks.subscribe(late, by=people.subject("ann"), url="https://receiver.example/x", secret=None)
    after = noticed(client, battery(identity), kept_out, world)
    assert {what: (before[what], after[what]) for what in before if before[what] != after[what]} == {}
    told = noticed(client, harmless(identity), owner, world)
    moved = {what[:2] for what in told if told[what][0] != told_before[what][0]}
    expected = ("/datasets?limit=100", "/query", f"/datasets/{identity}", "/ann/late-one/tail")
    assert moved >= {("POST", "/tokens"), ("POST", "/query"), *(("GET", path) for path in expected)}


def noticed(
    client: httpx.Client, all_asked: Iterator[Asked], kept_out: Mapping[str, dict[str, str]], world: World
) -> dict[tuple[str, ...], tuple[object, object]]:
    found: dict[tuple[str, ...], tuple[object, object]] = {}
    for asked, (who, credential) in product(all_asked, kept_out.items()):
        given = {**asked.given, "headers": {**asked.given.get("headers", {}), **credential}}
        world.calls.seen.clear()
        answer = client.request(asked.method, asked.path, **given)
        assert answer.status_code < 500
        found[asked.method, asked.path, str(asked.given), who] = (whole(answer), tuple(world.calls.seen))
    return found


# Things of others on a dataset that both may read.


@pytest.fixture(scope="module")
def shared(world: World) -> DatasetAlias:
    entry = world.people.add("ann", "shared")
    world.people.grant(entry, "pia", DatasetRole.CONTRIBUTOR)
    push(world.people, entry.alias)
    return entry.alias


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/subscriptions/{id}/deliveries"), ("DELETE", "/subscriptions/{id}")]
)
def test_subscriptions_of_others_are_not_there(
    world: World, client: httpx.Client, shared: DatasetAlias, method: str, path: str
) -> None:
    node, pia = world.people.node, world.people.bearer("pia")
    subscriber = world.people.subject("ann")
    made = node.webhooks.subscribe(
        node.datasets.resolve(shared), by=subscriber, url="https://a.example/", secret=None
    ).subscription
    assert_alike(world, client, method, f"/{shared}{path}", pia, made.id, ANY_ID)
    listed = client.get(f"/{shared}/subscriptions", headers=pia)
    assert listed.json() == {"subscriptions": []}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/cursors/{id}", None),
        ("POST", "/cursors/{id}/claim", {}),
        ("POST", "/cursors/{id}/claim", {"fence": "FENCE"}),
        ("POST", "/cursors/{id}/fetch", {"fence": "FENCE"}),
        ("POST", "/cursors/{id}/ack", {"fence": "FENCE", "position": "POSITION"}),
        ("DELETE", "/cursors/{id}", None),
    ],
)
def test_cursors_of_others_are_not_there(
    world: World, client: httpx.Client, shared: DatasetAlias, method: str, path: str, body: dict[str, str] | None
) -> None:
    """Even to who knows the fence."""
    node, pia = world.people.node, world.people.bearer("pia")
    verbs = node.cursors.of(world.people.subject("ann"))
    entry = node.datasets.resolve(shared)
    found = [each for each in verbs.list(entry) if each.consumer.endswith("feed-1")]
    cursor = found[0] if found else verbs.create(entry, "feed-1", start="baseline")
    text = json.dumps(body).replace("FENCE", cursor.fence).replace("POSITION", str(cursor.position))
    given = {} if body is None else {"json": json.loads(text)}
    assert_alike(world, client, method, f"/{shared}{path}", pia, "feed-1", "none-1", **given)
    assert client.get(f"/{shared}/cursors", headers=pia).json() == {"cursors": []}
    assert verbs.get(entry, "feed-1") == cursor


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("who", ["pia", "pia, reading", "ann, another dataset", "admin, another dataset", "acme"])
def test_jobs_of_others_are_not_there(
    world: World, client: httpx.Client, shared: DatasetAlias, method: str, who: str
) -> None:
    node = world.people.node
    job = node.requests.verify(node.datasets.resolve(shared), VerifyOptions(), by=world.people.subject("ann"))
    answers = []
    for job_id in (job.id, ANY_ID):
        answer = client.request(method, f"/jobs/{job_id}", headers=world.kept_out()[who])
        answers.append(whole(answer, NAME=job_id))
    assert answers[0] == answers[1]
    assert node.jobs.get(job.id) == job


@pytest.mark.parametrize("who", ["pia", "ann, another dataset", "admin, another dataset", "acme"])
def test_tokens_of_others_are_not_there(world: World, client: httpx.Client, who: str) -> None:
    token, text = world.people.issue("rita")
    credential = world.kept_out()[who]
    assert_alike(world, client, "DELETE", "/tokens/{id}", credential, token.id, ANY_ID)
    unknown = make(TokenKind.PERSONAL, bytes(range(16)), bytes(range(32)))
    seen = [whole(client.post("/tokens/inspect", headers=credential, json={"token": each})) for each in (text, unknown)]
    assert seen[0] == seen[1]
    assert seen[0][0] == 404


def assert_alike(
    world: World,
    client: httpx.Client,
    method: str,
    path: str,
    credential: Mapping[str, str],
    there: str,
    absent: str,
    **given: Any,
) -> None:
    seen = []
    for name in (there, absent):
        answer = client.request(method, path.replace("{id}", name), headers=credential, **given)
        seen.append(whole(answer, NAME=name))
    assert seen[0] == seen[1]
    assert seen[0][0] == 404


def test_objects_of_a_hidden_dataset_are_not_had_through_another(
    world: World, client: httpx.Client, shared: DatasetAlias
) -> None:
    node, pia = world.people.node, world.people.bearer("pia")
    head = str(node.datasets.head(world.hidden.entry).hash)
    (data,) = {
        str(link.block.event.new_data.physical_hash)  # type: ignore[union-attr]
        for link in node.datasets.log(world.hidden.entry, limit=10)
        if getattr(link.block.event, "new_data", None) is not None
    }
    for there, path in ((head, "blocks"), (data, "data"), (data, "checkpoints")):
        for method in ("GET", "HEAD"):
            assert_alike(world, client, method, f"/{shared}/{path}/{{id}}", pia, there, ANY_HASH)
    assert_alike(world, client, "GET", f"/{shared}/state?asOfBlock={{id}}", pia, head, ANY_HASH)
    identity = str(node.datasets.resolve(shared).id)
    seen = []
    for block in (head, ANY_HASH):
        started = client.post(f"/{shared}/cursors", headers=pia, json={"consumer": "c", "from": block})
        pinned = [{"id": identity, "alias": "r", "blockHash": block}]
        asked = client.post("/query", headers=pia, json={"query": "SELECT * FROM r", "datasets": pinned})
        seen.append([whole(answer, NAME=block) for answer in (started, asked)])
    assert seen[0] == seen[1]


def test_a_conflict_names_only_what_the_caller_may_read(world: World, client: httpx.Client) -> None:
    people = world.people
    for name, is_read in (("kept", True), ("free", False)):
        entry = people.add("ann", name)
        people.grant(entry, "pia", DatasetRole.OWNER)
        people.add("ann", f"{name}-hidden", manifest=DERIVED.replace("readings", f"ann/{name}"))
        if is_read:
            people.add("pia", f"{name}-seen", manifest=DERIVED.replace("readings", f"ann/{name}"))
        answer = client.delete(f"/datasets/{entry.id}", headers=people.bearer("pia"))
        if is_read:
            assert (answer.status_code, answer.json()["usedBy"]) == (409, [f"pia/{name}-seen"])
            assert "hidden" not in answer.text
        else:
            assert answer.status_code == 204


def test_the_audit_is_for_those_who_may_read_its_dataset(world: World, client: httpx.Client) -> None:
    people = world.people
    entry = people.scene("system", "audit").entry
    assert parse_dataset_alias("system/audit") == entry.alias
    for who, credential in world.kept_out().items():
        assert client.get("/system/audit/tail", headers=credential).status_code == 404, who
        assert client.get(f"/datasets/{entry.id}", headers=credential).status_code == 404
    assert client.get("/system/audit/tail", headers=people.bearer("rita")).status_code == 200
    assert client.get("/system/audit/tail", headers=people.bearer("root")).status_code == 200

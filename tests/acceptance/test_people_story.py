"""Five people on a node of real processes.

An admin, a publisher's service, a consumer without an account, an outsider, an auditor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.node_process import JOB_S_MAX, NDJSON, NodeProcess, Odf, ndjson, node_process
from tests.support.stories import reading, root
from tests.support.waiting import wait_until

PASSWORD = "correct horse battery staple"
WITHDRAWN_S_MAX = 5.0
YAML = {"content-type": "application/yaml"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node whose audit goes on into its dataset at once."""
    workspace: Path = tmp_path_factory.mktemp("people") / "workspace"
    with node_process(workspace, ODF_AUDIT_FLUSH_S="0.5", ODF_REFUSALS_WINDOW_S="1") as found:
        yield found


@dataclass
class Person:
    """A client with a token of its own, or none."""

    http: httpx.Client
    token: str | None

    def json(self, method: str, path: str, status: int = 200, **given: Any) -> Any:
        answer = self.http.request(method, path, **given)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


Enter = Callable[[str | None], Person]


@pytest.fixture
def enter(node: NodeProcess) -> Iterator[Enter]:
    """A person with this token; connections are closed after the test."""
    with ExitStack() as closing:

        def entered(token: str | None) -> Person:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            client = httpx.Client(base_url=node.url, headers=headers, timeout=120, trust_env=False)
            return Person(closing.enter_context(client), token)

        yield entered


def join(node: NodeProcess, enter: Enter, admin: httpx.Client, name: str, *, is_admin: bool = False) -> Person:
    """The admin invites; the person opens the link, sets a password, signs in by CLI."""
    made = admin.post("/admin/invitations", json={"name": name, "isAdmin": is_admin})
    assert made.status_code == 201, made.text
    code = parse_qs(urlsplit(made.json()["url"]).query)["code"][0]
    with httpx.Client(base_url=node.url, timeout=60, trust_env=False) as browser:
        assert browser.get("/setup", params={"code": code}).status_code == 200
        assert browser.post("/setup", data={"code": code, "password": PASSWORD}).status_code == 200
        assert browser.get("/accounts/me").json()["accountName"] == name
    body = {"loginMethod": "password", "loginCredentialsJson": f'{{"login": "{name}", "password": "{PASSWORD}"}}'}
    token = httpx.post(f"{node.url}/platform/login", json=body, timeout=60, trust_env=False).json()["accessToken"]
    return enter(token)


def push(who: Person, path: str, *readings: int) -> httpx.Response:
    return who.http.post(path, content=ndjson([reading(n) for n in readings]), headers={"content-type": NDJSON})


def test_five_people_share_a_node(node: NodeProcess, enter: Enter, tmp_path: Path) -> None:
    # An admin opens the node and invites colleagues.
    admin = join(node, enter, node.http, "root", is_admin=True)
    ann, bob, auditor = (join(node, enter, admin.http, name) for name in ("ann", "bob", "auditor"))
    assert ann.json("GET", "/accounts/me")["account"]["isAdmin"] is False
    assert ann.http.get("/admin/accounts").status_code == 404

    # A publisher's service pushes with a token for one dataset and nothing else.
    ann.json("POST", "/datasets?visibility=public", 201, content=root("open"), headers=YAML)
    ann.json("POST", "/datasets", 201, content=root("closed"), headers=YAML)
    wanted = {"name": "feed", "kind": "service", "scopes": ["push"], "datasets": ["open"]}
    service = enter(ann.json("POST", "/tokens", 201, json=wanted)["token"])
    assert push(service, "/ann/open/ingest", 1, 2).status_code == 200
    assert push(service, "/ann/closed/ingest", 1).status_code == 404
    assert service.http.put("/ann/open/visibility", json={"visibility": "private"}).status_code == 403

    # A consumer reads, queries and copies a public dataset without a token.
    consumer = enter(None)
    assert len(consumer.json("GET", "/ann/open/tail")["data"]) == 2
    counted = consumer.json("POST", "/query", json={"query": 'select count(*) as n from "ann/open"'})
    assert counted["output"]["data"] == [{"n": 2}]
    assert [each["alias"] for each in consumer.json("GET", "/datasets")["datasets"]] == ["ann/open"]
    hidden, missing = (consumer.http.get(f"/ann/{name}/tail") for name in ("closed", "absent"))
    assert hidden.text.replace("closed", "absent") == missing.text
    copy = Odf(["--workspace", str(tmp_path / "copy")], {"ODF_EGRESS_ALLOW": f'["{urlsplit(node.url).netloc}"]'})
    copy.json("init")
    assert copy.json("pull", f"{node.url}/ann/open", "--as", "open")["upToDate"] is False
    assert copy.json("verify", "open")

    # An organisation shares a private dataset with an outsider, and takes it back.
    ann.json("POST", "/orgs", 201, json={"name": "acme"})
    ann.json("POST", "/datasets", 201, content=root("acme/plans"), headers=YAML)
    assert push(ann, "/acme/plans/ingest", 1).status_code == 200
    assert bob.http.get("/acme/plans/tail").status_code == 404
    ann.json("PUT", "/acme/plans/collaborators/bob", json={"role": "reader"})
    assert len(bob.json("GET", "/acme/plans/tail")["data"]) == 1
    assert push(bob, "/acme/plans/ingest", 2).status_code == 403
    subscribed = bob.http.post("/acme/plans/cursors", json={"consumer": "reader", "from": "start"})
    assert subscribed.status_code == 201
    ann.json("DELETE", "/acme/plans/collaborators/bob", 204)
    began = time.monotonic()
    fence = {"fence": subscribed.json()["fence"]}
    wait_until(
        lambda: (
            bob.http.get("/acme/plans/tail").status_code == 404
            and bob.http.post("/acme/plans/cursors/reader/fetch", json=fence).status_code == 404
        ),
        deadline_s=WITHDRAWN_S_MAX,
        what="the end of a right",
    )
    assert time.monotonic() - began <= WITHDRAWN_S_MAX

    # An auditor verifies the audit.
    def audited() -> bool:
        found = admin.http.get("/system/audit/tail", params={"limit": 1000})
        return found.status_code == 200 and any(row["kind"] == "role.revoked" for row in found.json()["data"])

    wait_until(audited, deadline_s=JOB_S_MAX, what="the audit")
    assert auditor.http.get("/system/audit/tail").status_code == 404
    admin.json("PUT", "/system/audit/collaborators/auditor", json={"role": "reader"})
    odf = Odf(["--node", node.url, "--token", str(auditor.token)])
    odf.json("verify", "system/audit")
    for who in (admin, auditor):
        assert push(who, "/system/audit/ingest", 1).status_code == 403
    dataset = next(each["id"] for each in admin.json("GET", "/datasets")["datasets"] if each["alias"] == "system/audit")
    assert admin.http.delete(f"/datasets/{dataset}").status_code == 403


def test_a_token_that_was_withdrawn_counts_nowhere(node: NodeProcess, enter: Enter) -> None:
    made = node.http.post("/tokens", json={"name": "short", "scopes": ["read"]}).json()
    holder = enter(made["token"])
    assert holder.http.get("/datasets").status_code == 200
    assert node.http.delete(f"/tokens/{made['id']}").status_code == 204
    for path in ("/datasets", "/accounts/me", "/jobs/0", "/local/absent/tail"):
        answer = holder.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (401, "token-revoked")
    assert holder.http.post("/query", json={"query": "select 1"}).status_code == 401


def test_a_workspace_of_one_s_own_needs_no_account(tmp_path: Path) -> None:
    alone = Odf(["--workspace", str(tmp_path / "alone")])
    alone.json("init")
    manifest = tmp_path / "readings.yaml"
    manifest.write_text(root("readings"))
    (added,) = alone.json("add", str(manifest))
    assert added["alias"] == "local/readings"
    assert [each["alias"] for each in alone.json("list")] == ["local/readings"]

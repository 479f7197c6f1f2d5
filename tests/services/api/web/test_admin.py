"""The screens of the node's admins."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.duty import Duty
from odfabric.model.jobs.flow import Every, Flow, FlowKind, FlowRule, FlowStop
from odfabric.model.people.account import DatasetRole
from odfabric.model.people.audit import Actor, AuditKind
from odfabric.model.people.credential import Scope
from odfabric.testing.chains import physical_hash
from odfabric.wiring import Node
from tests.services.api.browsing import HOSTILE, Browsers, alert_of, browsing, field, text_of
from tests.services.api.people import PASSWORD, People
from tests.services.api.serving import serving


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities")
    people.grant(cities, "rita", DatasetRole.READER)
    with browsing(people) as found:
        yield found


@pytest.fixture
def root(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("root") as found:
        yield found


def accounts_in(answer: httpx.Response) -> list[str]:
    """Names of the accounts that a page lists."""
    return re.findall(r'<th scope="row"><a href="/-/admin/accounts/([^"]+)"', answer.text)


@pytest.mark.parametrize(
    "path", ["", "/accounts", "/accounts/ann", "/rights", "/tokens", "/audit", "/storage", "/settings", "/repositories"]
)
def test_to_others_than_admins_the_screens_do_not_exist(browsers: Browsers, path: str) -> None:
    with browsers.open("ann") as ann, browsers.open(None) as stranger:
        assert ann.get(f"/-/admin{path}").status_code == 404
        assert "/-/admin" not in ann.get("/").text
        led = stranger.get(f"/-/admin{path}")
        assert (led.status_code, led.headers["location"]) == (303, f"/login?then=/-/admin{path}")


def test_the_overview_tells_of_every_part_and_of_waiting_work(browsers: Browsers, root: httpx.Client) -> None:
    assert "Nothing waits and nothing runs." in text_of(root.get("/-/admin"))
    people = browsers.people
    with browsers.served.client() as client:
        assert client.post("/ann/cities/verify", json={}, headers={"prefer": "respond-async"}).status_code == 202
    people.memory.clock.advance(3 * 3_600_000)
    with browsers.open("root") as later:
        text = text_of(later.get("/-/admin"))
    for words in (
        "Database answers",
        "Objects answers",
        "Engine not running",
        "verify queued 1",
        "Datasets 1",
        "The oldest waits since 3 hours ago",
        "Version",
    ):
        assert words in text
    for job in people.node.ports.jobs.page(limit=9):
        people.node.jobs.cancel(job.id)


def test_the_overview_lists_flows_that_fail(browsers: Browsers, root: httpx.Client) -> None:
    node = browsers.people.node
    before = text_of(root.get("/-/admin"))
    assert "Disk has room" in before or "Disk nearly full" in before
    assert "Needs attention" not in before
    entry = node.datasets.resolve(DatasetAlias(Name("ann"), Name("cities")))
    now = node.ports.clock.now()
    flow = Flow(
        id="f",
        dataset_id=entry.id,
        kind=FlowKind.VERIFY,
        owner="ann",
        rule=FlowRule(trigger=Every(60)),
        created_at=now,
        updated_at=now,
        failures=3,
        stop=FlowStop("three times in a row", now),
    )
    assert node.ports.flows.write(flow=flow)
    seen = root.get("/-/admin")
    assert "ann/cities Verify stopped 3" in text_of(seen)
    assert 'href="/ann/cities/-/flows"' in seen.text
    (kept,) = node.ports.flows.of_dataset(entry.id)
    assert node.ports.flows.delete(kept)


def test_the_overview_says_what_no_worker_does(browsers: Browsers, root: httpx.Client) -> None:
    assert "Send webhooks no worker does it never" in text_of(root.get("/-/admin"))
    duties = browsers.people.node.duties
    duties.ended(Duty.DELIVER, "w/1", error="the <network> is away")
    duties.ended(Duty.RELAY, "w/1", error=None)
    page = root.get("/-/admin")
    assert "Send webhooks fails just now the <network> is away" in text_of(page)
    assert "Publish commits to followers works" in text_of(page)
    told = {each["duty"]: each["state"] for each in root.get("/system/duties").json()["duties"]}
    assert (told["deliver"], told["relay"], told["collect"]) == ("fails", "works", "silent")


def test_the_overview_comes_when_the_disk_of_the_workspace_does_not_answer(tmp_path: Path) -> None:
    people = People(tmp_path / "node")
    with browsing(people) as browsers, browsers.open("root") as root:
        assert "Disk does not answer" not in text_of(root.get("/-/admin"))
        shutil.rmtree(people.node.settings.workspace)
        seen = root.get("/-/admin")
        assert seen.status_code == 200
        assert "Disk does not answer" in text_of(seen)
        assert "Database answers" in text_of(seen)


def test_accounts_are_found_by_part_of_a_name_or_address(root: httpx.Client) -> None:
    assert accounts_in(root.get("/-/admin/accounts", params={"q": "AC"})) == ["acme"]
    assert accounts_in(root.get("/-/admin/accounts", params={"q": "mats@example"})) == ["mats"]
    assert set(accounts_in(root.get("/-/admin/accounts?kind=organisation"))) == {"acme", "guild"}
    nothing = root.get("/-/admin/accounts", params={"q": HOSTILE})
    assert "No account fits." in text_of(nothing)
    assert "<script>alert" not in nothing.text
    listed = text_of(root.get("/-/admin/accounts?q=sue"))
    assert "sue user sue@example.org suspended" in listed


def test_accounts_have_pages(browsers: Browsers, root: httpx.Client) -> None:
    made = {f"many-{number:02}" for number in range(55)}
    with browsers.served.client() as client:
        for name in made:
            assert client.post("/admin/accounts", json={"name": name}).status_code == 201
    first = root.get("/-/admin/accounts?q=many-&kind=user")
    following = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert following is not None
    second = root.get(following[1].replace("&amp;", "&"))
    assert accounts_in(first) + accounts_in(second) == sorted(made)
    assert 'rel="next"' not in second.text


def test_an_invitation_is_shown_once_and_can_be_withdrawn(root: httpx.Client, browsers: Browsers) -> None:
    refused = root.post("/-/admin/invitations", data={"name": "ann", "email": "x@example.org", "admin": "on"})
    assert (refused.status_code, "the name ann is taken" in alert_of(refused)) == (409, True)
    assert field(refused, "email") == "x@example.org"
    made = root.post("/-/admin/invitations", data={"name": "dora", "email": ""})
    assert made.status_code == 201
    link = re.search(r"http://[^<\s]+/setup\?code=[^<\s]+", text_of(made))
    assert link is not None
    listed = root.get("/-/admin/accounts")
    assert "dora" in text_of(listed)
    assert link[0].partition("=")[2] not in listed.text
    with browsers.open(None) as dora:
        assert "dora" in dora.get(link[0]).text
        invitation = field(listed, "id")
        done = root.post("/-/admin/invitations/revoke", data={"id": invitation})
        assert done.headers["location"] == "/-/admin/accounts?done=withdrawn"
        assert dora.get(link[0]).status_code == 404
    assert root.post("/-/admin/invitations/revoke", data={"id": invitation}).status_code == 404


def test_an_account_is_suspended_and_let_in_again(root: httpx.Client, browsers: Browsers) -> None:
    path = "/-/admin/accounts/carl"
    with browsers.open("carl") as carl:
        version = field(root.get(path), "version")
        done = root.post(f"{path}/standing", data={"change": "suspend", "version": version})
        assert done.headers["location"] == f"{path}?done=suspend"
        page = root.get(done.headers["location"])
        assert "stopped to count at once" in text_of(page)
        assert carl.get("/-/account").status_code == 303
        stale = root.post(f"{path}/standing", data={"change": "resume", "version": version})
        assert (stale.status_code, "was changed meanwhile" in alert_of(stale)) == (409, True)
        assert root.post(f"{path}/standing", data={"change": "resume", "version": field(page, "version")}).is_redirect
        assert carl.get("/-/account").status_code == 200


def test_admins_are_made_and_unmade_but_never_the_last(root: httpx.Client, browsers: Browsers) -> None:
    path = "/-/admin/accounts/oona/standing"
    assert root.post(path, data={"change": "admin"}).is_redirect
    with browsers.open("oona") as oona:
        assert oona.get("/-/admin").status_code == 200
        assert root.post(path, data={"change": "no-admin"}).is_redirect
        assert oona.get("/-/admin").status_code == 404
    of_organisation = root.post("/-/admin/accounts/acme/standing", data={"change": "admin"})
    assert (of_organisation.status_code, "is an organisation" in alert_of(of_organisation)) == (400, True)
    assert root.post(path, data={"change": "king"}).status_code == 400


def test_limits_are_set_beside_what_is_used(root: httpx.Client, browsers: Browsers) -> None:
    path = "/-/admin/accounts/ann"
    page = root.get(path)
    assert "Used: 1." in text_of(page)
    form = {"datasets_max": "7", "stored_bytes_max": "", "pushes_per_minute_max": "0", "queries_at_once_max": ""}
    wrong = root.post(f"{path}/limits", data={**form, "datasets_max": "many", "version": field(page, "version")})
    assert (wrong.status_code, field(wrong, "datasets_max"), field(wrong, "pushes_per_minute_max")) == (
        400,
        "many",
        "0",
    )
    done = root.post(f"{path}/limits", data={**form, "version": field(page, "version")})
    assert done.headers["location"] == f"{path}?done=limits"
    limits = browsers.people.account("ann").limits
    assert (limits.datasets_max, limits.stored_bytes_max, limits.pushes_per_minute_max) == (7, None, 0)
    root.post(f"{path}/limits", data={})
    assert browsers.people.account("ann").limits.datasets_max is None


def test_a_new_password_is_chosen_by_a_link(root: httpx.Client, browsers: Browsers) -> None:
    made = root.post("/-/admin/accounts/gus/reset")
    link = re.search(r"http://[^<\s]+/setup\?code=[^<\s]+", text_of(made))
    assert (made.status_code, link is not None) == (201, True)
    assert link is not None
    with browsers.open(None) as gus:
        assert "Change my password" in text_of(gus.get(link[0]))
    refused = root.post("/-/admin/accounts/acme/reset")
    assert (refused.status_code, "nobody signs in as acme" in alert_of(refused)) == (400, True)


def test_deleting_an_account_takes_its_name_and_no_datasets(root: httpx.Client) -> None:
    path = "/-/admin/accounts"
    assert root.post(f"{path}/spare/delete", data={"confirm": "other"}).status_code == 400
    used = root.post(f"{path}/ann/delete", data={"confirm": "ann"})
    assert (used.status_code, 'href="/ann/cities"' in used.text) == (409, True)
    assert root.post(f"{path}/spare/delete", data={"confirm": "spare"}).headers["location"] == f"{path}?done=deleted"
    assert root.get(f"{path}/spare").status_code == 404


def test_rights_are_explained(root: httpx.Client) -> None:
    path = "/-/admin/rights"
    found = text_of(root.get(path, params={"account": "rita", "dataset": "ann/cities"}))
    assert "rita on ann/cities" in found
    assert "Role reader May read, follow Why they were given the role reader" in found
    assert "to them it does not exist" in text_of(root.get(path, params={"dataset": "ann/cities"}))
    for asked, status, says in (
        ({"account": "nobody-there", "dataset": "ann/cities"}, 404, "account not found"),
        ({"account": "rita", "dataset": "ann/none"}, 404, "dataset not found"),
        ({"account": HOSTILE, "dataset": "ann/cities"}, 400, ""),
    ):
        refused = root.get(path, params=asked)
        assert (refused.status_code, says in alert_of(refused)) == (status, True)
        assert field(refused, "account") == asked["account"]
        assert "<script>alert" not in refused.text


def test_a_pasted_token_is_found_and_revoked(root: httpx.Client, browsers: Browsers) -> None:
    _, text = browsers.people.issue("edda", scopes=frozenset({Scope.READ, Scope.PUSH}))
    found = root.post("/-/admin/tokens", data={"token": f" {text}\n"})
    assert "counts Account edda" in text_of(found)
    assert "May push, read" in text_of(found)
    assert text not in found.text
    done = root.post("/-/admin/tokens/revoke", data={"id": field(found, "id")})
    assert done.headers["location"] == "/-/admin/tokens?done=revoked"
    again = root.post("/-/admin/tokens", data={"token": text})
    assert "revoked" in text_of(again)
    assert "Revoke it" not in text_of(again)
    with browsers.served.client(text) as program:
        assert program.get("/accounts/me").status_code == 401
    nonsense = root.post("/-/admin/tokens", data={"token": PASSWORD})
    assert (nonsense.status_code, PASSWORD in nonsense.text) == (400, False)


def test_the_audit_is_newest_first_filtered_and_paged(root: httpx.Client, browsers: Browsers) -> None:
    people = browsers.people
    for number in range(60):
        actor = Actor(account=str(people.account("pia").id), name="pia", address="192.0.2.9")
        entry = people.ports.entry(AuditKind.SETTING_CHANGED, actor, target=f"thing-{number:02}", why=HOSTILE)
        people.ports.audit.add(entry)
    first = root.get("/-/admin/audit", params={"actor": "pia", "kind": "setting.changed"})
    assert "<script>alert" not in first.text
    older = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert older is not None
    second = root.get("/-/admin/audit" + older[1].replace("&amp;", "&"))
    seen = [text.split("<")[0] for text in re.findall(r"thing-\d\d<", first.text + second.text)]
    assert seen == [f"thing-{number:02}" for number in range(59, -1, -1)]
    only = text_of(root.get("/-/admin/audit", params={"target": "thing-07"}))
    assert "thing-07" in only
    assert "thing-08" not in only
    refused = text_of(root.get("/-/admin/audit", params={"actor": "pia", "outcome": "refused"}))
    assert "Nothing fits." in refused
    unknown = root.get("/-/admin/audit", params={"actor": "nobody-there"})
    assert (unknown.status_code, "account not found" in alert_of(unknown)) == (404, True)
    assert root.get("/-/admin/audit", params={"since": "2026-13-41"}).status_code == 400
    assert "Nothing fits." in text_of(root.get("/-/admin/audit", params={"until": "2001-01-01"}))


def test_the_audit_is_had_as_a_file_that_starts_no_formula(root: httpx.Client, browsers: Browsers) -> None:
    people = browsers.people
    for number in range(3):
        entry = people.ports.entry(AuditKind.KEY_ROTATED, Actor(name="max"), target="=1+1", number=str(number))
        people.ports.audit.add(entry)
    answer = root.get("/-/admin/audit.csv", params={"kind": "key.rotated"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["detail"] for row in rows] == ["number=2", "number=1", "number=0"]
    assert {(row["kind"], row["outcome"], row["actor"], row["target"]) for row in rows} == {
        ("key.rotated", "done", "max", "'=1+1")
    }


def test_settings_are_shown_without_secrets(browsers: Browsers) -> None:
    people = browsers.people
    settings = type(people.memory.settings)(
        **{
            **people.memory.settings.model_dump(),
            "database_url": "postgresql://odf:hush@1/x@db.example/odf?password=hush",
            "redis_url": "redis://:hush@cache.example/0",
            "s3_access_key": "hush",
            "s3_secret_key": "hush",
            "engine_token": "hush-hush-hush-hush-hush",
            "remote_tokens": {"https://other.example": "hush"},
            "public_url": "https://odf.example.org",
            "oidc_providers": {
                "corp": {"issuer": "https://id.example", "client_id": "odf-client", "client_secret": "hush"}
            },
        }
    )
    with serving(Node(people.node.ports, settings)) as served, served.client() as client:
        answer = client.get("/-/admin/settings")
    text = text_of(answer)
    assert "hush" not in answer.text
    for words in (
        "ODF_S3_SECRET_KEY set",
        "postgresql://…@db.example/odf?…",
        "redis://…@cache.example/0",
        "odf-client",
    ):
        assert words in text
    assert "https://other.example" in text


def test_settings_are_found_by_words(root: httpx.Client) -> None:
    text = text_of(root.get("/-/admin/settings", params={"q": "push_wait"}))
    assert "ODF_PUSH_WAIT_S_MAX" in text
    assert "ODF_WORKSPACE" not in text
    assert "No setting fits." in text_of(root.get("/-/admin/settings", params={"q": "nosuch"}))


def test_what_nobody_needs_is_shown_before_it_is_deleted(tmp_path: Path) -> None:
    people = People(tmp_path)
    entry = people.add("ann", "cities")
    objects = people.node.ports.objects
    lost = data_key(entry.id, physical_hash("lost"))
    objects.put_bytes(lost, b"x" * 2048)
    with serving(people.node) as served, Browsers(people, served).open("root") as root:
        assert lost not in root.get("/-/admin/storage").text
        assert "Nothing: every object is named" in text_of(root.get("/-/admin/storage?look=true"))
        people.memory.clock.advance(48 * 3_600_000)
        found = text_of(root.get("/-/admin/storage?look=true"))
    assert f"Would be deleted 1 Bytes 2.0 KB The largest of them Object Bytes {lost}" in found
    assert objects.stat(lost) is not None

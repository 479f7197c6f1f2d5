"""The Smart Transfer Protocol over real sockets.

Our client, a scripted one, and what is refused before the upgrade.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from odfabric.formats.smart.block_archive import ArchiveLimits, read_archive
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.model.people.audit import AuditKind
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.people import People
from tests.services.api.serving import TOKEN, Served, serving
from tests.services.api.smart_peer import reaching
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT
from tests.usecases.transfer.sharing import ended

BYTES_MAX = 1 << 24
SEEDS = count(100)
"""Identities of datasets come from them: one that is pushed twice is another dataset."""
VERSION = {"x-odf-smtp-version": "1"}


@dataclass(frozen=True, slots=True)
class Peer:
    """Our client on another node; `url` is that of the server's datasets."""

    node: MemoryNode
    url: str

    def pull(self, name: str) -> dict[str, Any]:
        alias = DatasetAlias(Name("local"), Name(name))
        request = PullRequest(dataset=None, alias=alias, url=f"odf+{self.url}/local/{name}")
        return ended(self.node, self.node.node.requests.pull(request))

    def push(self, entry: CatalogEntry, to: str, *, visibility: Visibility = Visibility.PRIVATE) -> dict[str, Any]:
        request = SendWish(to=f"odf+{self.url}/{to}", visibility=visibility)
        return ended(self.node, self.node.node.sharing.push(entry, request, by=self.node.node.operator))


@pytest.fixture
def peer(served: Served, tmp_path: Path) -> Iterator[Peer]:
    with reaching(served.url, tmp_path, token=TOKEN, seed=next(SEEDS)) as node:
        yield Peer(node, served.url)


def ingest(node: MemoryNode, entry: CatalogEntry, day: int) -> None:
    body = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
    node.node.requests.push(PushData(dataset=entry.id, body=iter([body])))


def made(node: MemoryNode, name: str, *, days: int = 2) -> CatalogEntry:
    """A dataset with some slices; the node that serves has a worker of its own."""
    entry = node.add(ROOT.replace("name: readings", f"name: {name}"))
    for day in range(1, days + 1):
        body = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
        job = node.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
        node.node.jobs.work_until_ended(job, worker="test", listener=lambda _: None)  # type: ignore[arg-type]
    return entry


def same(left: MemoryNode, right: MemoryNode, entry: CatalogEntry) -> bool:
    for key in left.objects.keys(f"{entry.id.multibase}/"):
        if key.split("/")[1] in ("blocks", "data", "checkpoints"):
            data = left.objects.read_bytes(key, size_max=BYTES_MAX)
            assert right.objects.read_bytes(key, size_max=BYTES_MAX) == data
    return left.node.datasets.head(entry) == right.node.datasets.head(right.node.datasets.resolve(entry.id))


class TestOurClient:
    def test_pull_new_evolved_and_up_to_date(self, memory: MemoryNode, peer: Peer) -> None:
        entry = made(memory, "pulled")
        assert peer.pull("pulled")["rows"] == 2
        assert same(memory, peer.node, entry)
        job = memory.node.requests.push(
            PushData(dataset=entry.id, body=iter([b'{"event_time":"2026-02-01T00:00:00Z","city":"B"}']))
        )
        memory.node.jobs.work_until_ended(job, worker="test", listener=lambda _: None)  # type: ignore[arg-type]
        assert peer.pull("pulled")["offsets"] == {"start": 2, "end": 2}
        assert peer.pull("pulled")["upToDate"] is True
        assert same(memory, peer.node, entry)

    @pytest.mark.parametrize("visibility", Visibility)
    def test_push_new_and_evolved(
        self, memory: MemoryNode, peer: Peer, stranger: httpx.Client, visibility: Visibility
    ) -> None:
        name = f"pushed-{visibility.value}"
        entry = made(peer.node, name)
        sent = peer.push(entry, f"local/{name}", visibility=visibility)
        assert (sent.get("blocks"), sent.get("objects")) == (5, 2), sent
        assert same(peer.node, memory, entry)
        seen = stranger.get(f"/local/{name}/refs/head").status_code
        assert seen == (200 if visibility is Visibility.PUBLIC else 404)
        ingest(peer.node, entry, 9)
        peer.node.work()
        assert peer.push(entry, f"local/{name}")["blocks"] == 1
        assert peer.push(entry, f"local/{name}")["upToDate"] is True
        assert same(peer.node, memory, entry)

    def test_a_long_message_goes_in_several_frames(
        self, memory: MemoryNode, peer: Peer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("odfabric.adapters.websocket.conversations.FRAME_BYTES", 100)
        entry = made(peer.node, "framed")
        assert peer.push(entry, "local/framed")["blocks"] == 5
        assert same(peer.node, memory, entry)

    def test_not_existing(self, peer: Peer) -> None:
        assert peer.pull("nowhere")["code"] == "not-found"

    @pytest.mark.parametrize(
        ("token", "code"),
        [(None, "unauthenticated"), ("odf_ffffffffffffffff", "unauthenticated")],
        ids=["none", "wrong"],
    )
    def test_unauthenticated(self, served: Served, tmp_path: Path, token: str | None, code: str) -> None:
        with reaching(served.url, tmp_path, token=token, seed=next(SEEDS)) as node:
            entry = made(node, "unwanted")
            assert Peer(node, served.url).push(entry, "local/unwanted")["code"] == code

    def test_ref_collision(self, memory: MemoryNode, peer: Peer) -> None:
        entry = made(peer.node, "first")
        peer.push(entry, "local/first")
        refused = peer.push(entry, "local/second")
        assert (refused["code"], str(entry.id) in refused["message"]) == ("already-exists", True)


@contextmanager
def talking(served: Served, path: str, *, token: str | None = TOKEN, version: str = "1") -> Iterator[ClientConnection]:
    """A conversation by hand."""
    headers = {"x-odf-smtp-version": version}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    url = served.url.replace("http://", "ws://") + path
    talk = connect(url, additional_headers=headers, proxy=None, ping_interval=None, compression=None, legacy=True)
    try:
        yield talk
    finally:
        talk.close()


def hear(talk: ClientConnection) -> Any:
    found = talk.recv(timeout=20)
    assert isinstance(found, str)
    return json.loads(found)


def end_of(talk: ClientConnection) -> tuple[int, str]:
    """Code and reason of the close frame."""
    with pytest.raises(ConnectionClosed) as closed:
        talk.recv(timeout=20)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


class TestScriptedClient:
    """A peer that speaks the literal texts of the protocol."""

    def test_pull(self, memory: MemoryNode, served: Served) -> None:
        entry = made(memory, "scripted")
        head = memory.node.datasets.head(entry)
        with talking(served, "/local/scripted/pull") as talk:
            talk.send('{"begin_after":null,"stop_at":null,"force_update_if_diverged":false}')
            plan = hear(talk)["Ok"]["transfer_plan"]
            assert (plan["num_blocks"], plan["num_objects"], plan["num_records"]) == (5, 2, 2)
            talk.send("{}")
            blocks = hear(talk)["blocks"]
            assert (blocks["media_type"], blocks["encoding"]) == ("application/tar+gzip", "raw")
            limits = ArchiveLimits(blocks_max=10, block_bytes_max=BYTES_MAX, bytes_max=BYTES_MAX)
            found = read_archive(bytes(blocks["payload"]), limits)
            assert [str(name) for name, _ in found][-1] == str(head.hash)
            (key, _) = memory.objects.keys(f"{entry.id.multibase}/data/")
            data = memory.objects.read_bytes(key, size_max=BYTES_MAX)
            file = {"object_type": "DataSlice", "physical_hash": key.rpartition("/")[2], "size": len(data)}
            for _ in range(2):  # may be asked again
                talk.send(json.dumps({"object_files": [file]}))
                (strategy,) = hear(talk)["object_transfer_strategies"]
                source = strategy["download_from"]
                assert (strategy["object_file"], strategy["pull_strategy"]) == (file, "HttpDownload")
                assert source["url"] == f"{served.url}/local/scripted/data/{file['physical_hash']}"
                assert source["expires_at"] is None
                headers = {each["name"]: each["value"] for each in source["headers"]}
                assert headers == {**VERSION, "Authorization": f"Bearer {TOKEN}"}
                assert httpx.get(source["url"], headers=headers, trust_env=False).content == data
            talk.close(1000, "Client pull flow succeeded")

    def test_pull_of_an_unknown_interval_up_to_date_and_force(self, memory: MemoryNode, served: Served) -> None:
        head = str(memory.node.datasets.head(made(memory, "interval")).hash)
        other = "f1620" + "ab" * 32
        begin = '{"begin_after":"%s","stop_at":null,"force_update_if_diverged":%s}'
        with talking(served, "/local/interval/pull") as talk:
            talk.send(begin % (other, "false"))
            assert hear(talk) == {"Err": {"InvalidInterval": {"head": head, "tail": other}}}
        with talking(served, "/local/interval/pull") as talk:
            talk.send(begin % (head, "false"))
            assert hear(talk)["Ok"]["transfer_plan"]["num_blocks"] == 0
        with talking(served, "/local/interval/pull") as talk:
            talk.send(begin % (other, "true"))
            assert hear(talk)["Ok"]["transfer_plan"]["num_blocks"] == 5

    def test_push(self, memory: MemoryNode, served: Served, tmp_path: Path) -> None:
        from odfabric.formats.smart.block_archive import write_archive

        source = MemoryNode(tmp_path, seed=21)
        entry = made(source, "by-hand", days=1)
        rows = list(source.node.repository.rows_down(entry.id))[::-1]
        stored = source.node.repository.blocks(entry.id)
        archive = write_archive((row.hash, stored.get_bytes(row.hash)) for row in rows)
        (key,) = source.objects.keys(f"{entry.id.multibase}/data/")
        data = source.objects.read_bytes(key, size_max=BYTES_MAX)
        file = {"object_type": "DataSlice", "physical_hash": key.rpartition("/")[2], "size": len(data)}
        plan = {
            "num_blocks": len(rows),
            "num_objects": 1,
            "num_records": 1,
            "bytes_in_raw_blocks": 100,
            "bytes_in_raw_objects": len(data),
        }
        with talking(served, "/local/by-hand/push") as talk:
            talk.send(
                json.dumps(
                    {
                        "current_head": None,
                        "transfer_plan": plan,
                        "force_update_if_diverged": False,
                        "visibility_for_created_dataset": "Private",
                    }
                )
            )
            assert hear(talk) == {"Ok": {}}
            batch = {
                "num_blocks": len(rows),
                "media_type": "application/tar+gzip",
                "encoding": "raw",
                "payload": list(archive),
            }
            talk.send(json.dumps({"new_blocks": batch}))
            assert hear(talk) == {"Ok": {}}
            talk.send(json.dumps({"object_files": [file], "is_truncated": True}))
            assert hear(talk)["Ok"]["object_transfer_strategies"][0]["push_strategy"] == "HttpUpload"
            talk.send(json.dumps({"object_files": [file], "is_truncated": False}))
            (strategy,) = hear(talk)["Ok"]["object_transfer_strategies"]
            target = strategy["upload_to"]
            headers = {each["name"]: each["value"] for each in target["headers"]}
            wrong = httpx.put(target["url"], headers=headers, content=b"something else", trust_env=False)
            assert wrong.status_code == 422
            there = httpx.put(target["url"], headers=headers, content=data, trust_env=False)
            assert (there.status_code, there.content) == (200, b"")
            talk.send('{"details":{"Running":{"uploaded_objects_count":1}}}')
            talk.send('{"details":"Complete"}')
            talk.send("{}")
            assert hear(talk) == {}
            talk.close(1000, "Client push flow succeeded")
        assert same(source, memory, entry)

    def test_push_with_another_head(self, memory: MemoryNode, served: Served) -> None:
        head = str(memory.node.datasets.head(made(memory, "swapped", days=0)).hash)
        said = "f1620" + "cd" * 32
        with talking(served, "/local/swapped/push") as talk:
            talk.send(_begin(said))
            assert hear(talk) == {"Err": {"InvalidHead": {"actual_head": said, "expected_head": head}}}

    @pytest.mark.parametrize(
        "text", ["", "[]", "{" * 50_000, '{"current_head":1}'], ids=["empty", "list", "deep", "type"]
    )
    @pytest.mark.parametrize("verb", ["pull", "push"])
    def test_what_is_no_message_ends_with_a_whole_answer(
        self, memory: MemoryNode, served: Served, verb: str, text: str
    ) -> None:
        name = f"evil-{hashlib.sha256(f'{verb}{text}'.encode()).hexdigest()[:8]}"
        made(memory, name, days=0)
        with talking(served, f"/local/{name}/{verb}") as talk:
            talk.send(text)
            code, reason = end_of(talk)
        found = json.loads(reason)["Err"]["Internal"]
        assert (code, found["phase"]) == (1011, {verb.capitalize(): "InitialRequest"})

    def test_bytes_are_no_message(self, memory: MemoryNode, served: Served) -> None:
        made(memory, "binary", days=0)
        with talking(served, "/local/binary/pull") as talk:
            talk.send(b"{}")
            assert end_of(talk)[0] == 1011

    def test_objects_of_others_are_not_linked_to(self, memory: MemoryNode, served: Served) -> None:
        made(memory, "mine", days=0)
        other = made(memory, "others", days=1)
        (key,) = memory.objects.keys(f"{other.id.multibase}/data/")
        file = {"object_type": "DataSlice", "physical_hash": key.rpartition("/")[2], "size": 1}
        with talking(served, "/local/mine/pull") as talk:
            talk.send('{"begin_after":null,"stop_at":null,"force_update_if_diverged":false}')
            hear(talk)
            talk.send("{}")
            hear(talk)
            talk.send(json.dumps({"object_files": [file]}))
            code, reason = end_of(talk)
        assert (code, json.loads(reason)["Err"]["Internal"]["phase"]) == (1011, {"Pull": "ObjectsRequest"})


def _begin(head: str | None) -> str:
    plan = dict.fromkeys(("num_blocks", "num_objects", "num_records", "bytes_in_raw_blocks", "bytes_in_raw_objects"), 1)
    begin = {"current_head": head, "transfer_plan": plan, "force_update_if_diverged": False}
    return json.dumps({**begin, "visibility_for_created_dataset": "Private"})


class TestBeforeTheUpgrade:
    @pytest.mark.parametrize(
        ("path", "token", "version", "status"),
        [
            ("/local/gate/pull", TOKEN, "2", 400),
            ("/local/gate/push", TOKEN, "", 400),
            ("/local/gate/pull", None, "1", 404),
            ("/local/gate/pull", "odf_ffffffffffffffff", "1", 401),
            ("/local/gate/push", None, "1", 401),
            ("/local/absent/pull", TOKEN, "1", 404),
            ("/nobody/new/push", TOKEN, "1", 404),
        ],
    )
    def test_statuses(
        self, memory: MemoryNode, served: Served, path: str, token: str | None, version: str, status: int
    ) -> None:
        alias = DatasetAlias(Name("local"), Name("gate"))
        if memory.node.repository.find(alias) is None:
            made(memory, "gate", days=0)
        with pytest.raises(InvalidStatus) as refused, talking(served, path, token=token, version=version):
            pass
        response = refused.value.response
        assert response.status_code == status
        body = json.loads(bytes(response.body or b""))
        assert body["message"]
        assert response.headers["x-content-type-options"] == "nosniff"
        if status == 400:
            assert body["message"] == "Incompatible client version"

    def test_other_paths_have_no_sockets(self, served: Served) -> None:
        with pytest.raises(InvalidStatus), talking(served, "/system/health"):
            pass


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    found = People(tmp_path_factory.mktemp("people"))
    found.grant(found.add("ann", "private"), "rita", DatasetRole.READER)
    return found


@pytest.fixture(scope="module")
def theirs(people: People) -> Iterator[Served]:
    with serving(people.node) as found:
        yield found


class TestRights:
    """ann owns a private dataset that rita may read."""

    @pytest.mark.parametrize(
        ("who", "path", "status"),
        [
            ("rita", "/ann/private/push", 403),
            ("pia", "/ann/private/push", 403),
            ("pia", "/ann/absent/push", 403),
            ("pia", "/ann/private/pull", 404),
            ("pia", "/ann/absent/pull", 404),
        ],
    )
    def test_who_may_not(self, people: People, theirs: Served, who: str, path: str, status: int) -> None:
        token = people.bearer(who)["authorization"].removeprefix("Bearer ")
        with pytest.raises(InvalidStatus) as refused, talking(theirs, path, token=token):
            pass
        assert refused.value.response.status_code == status
        if status == 403:
            wait_until(lambda: self._is_in_audit(people, path), what="the audit")

    @staticmethod
    def _is_in_audit(people: People, path: str) -> bool:
        found = [stored.entry for stored in people.node.ports.audit.page(limit=100)]
        return any(each.kind is AuditKind.ACCESS_REFUSED and each.target == f"GET {path}" for each in found)

    def test_who_may(self, people: People, theirs: Served) -> None:
        for who, verb in (("rita", "pull"), ("ann", "pull"), ("ann", "push")):
            token = people.bearer(who)["authorization"].removeprefix("Bearer ")
            with talking(theirs, f"/ann/private/{verb}", token=token):
                pass

    def test_a_session_counts_for_nothing(self, people: People, theirs: Served) -> None:
        """A page elsewhere could open a socket with it in somebody's name."""
        headers = {**VERSION, "cookie": f"{PLAIN_COOKIE}={people.session('ann')}"}
        url = theirs.url.replace("http://", "ws://") + "/ann/private/push"
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=headers, proxy=None, ping_interval=None, compression=None, legacy=True)
        assert refused.value.response.status_code == 401

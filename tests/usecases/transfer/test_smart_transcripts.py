"""Our client against a peer that speaks the protocol's literal texts.

The peer speaks them rightly and wrongly.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from odfabric.formats.smart.block_archive import write_archive
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.smart import ObjectUrl
from odfabric.ports.transfer.conversations import Closed, Conversation
from tests.usecases.transfer.sharing import BYTES_MAX
from tests.usecases.transfer.smart_parties import PLACE, SERVED, SmartParties


@pytest.fixture
def parties(tmp_path: Path) -> SmartParties:
    found = SmartParties(tmp_path)
    found.ingest(1)
    return found


INTERVAL = json.dumps({"Err": {"InvalidInterval": {"head": "f1620" + "ab" * 32, "tail": "f1620" + "cd" * 32}}})


class Scripted:
    """A peer that gives its answers in order and keeps what it heard.

    A message of many blocks it shortens.
    """

    def __init__(self, *steps: str | Closed | None) -> None:
        self.steps = list(steps)
        self.heard: list[Any] = []
        self.end: Closed | None = None

    def __call__(self, talk: Conversation) -> None:
        for step in self.steps:
            found = talk.hear(seconds_max=20)
            if not isinstance(found, str):
                self.end = found
                return
            self.heard.append(json.loads(found))
            if isinstance(step, Closed):
                talk.end(step.code, step.reason)
                return
            if step is not None:
                talk.say(step)
        found = talk.hear(seconds_max=20)
        self.end = found if isinstance(found, Closed) else None


def archive_of(parties: SmartParties) -> tuple[int, list[int]]:
    node, entry = parties.ours.node, parties.entry
    stored = node.repository.blocks(entry.id)
    rows = list(node.repository.rows_down(entry.id))[::-1]
    return len(rows), list(write_archive((row.hash, stored.get_bytes(row.hash)) for row in rows))


def data_of(parties: SmartParties) -> tuple[str, bytes]:
    (key,) = parties.ours.objects.keys(f"{parties.entry.id.multibase}/data/")
    return key.rpartition("/")[2], parties.ours.objects.read_bytes(key, size_max=BYTES_MAX)


def plan(count: int) -> str:
    return json.dumps(
        {
            "Ok": {
                "transfer_plan": {
                    "num_blocks": count,
                    "num_objects": 1,
                    "num_records": 1,
                    "bytes_in_raw_blocks": 1500,
                    "bytes_in_raw_objects": 9000,
                }
            }
        }
    )


def blocks(count: int, payload: list[int]) -> str:
    batch = {"num_blocks": count, "media_type": "application/tar+gzip", "encoding": "raw", "payload": payload}
    return json.dumps({"blocks": batch})


def links(name: str, size: int, url: str, *, expires_at: str | None = None) -> str:
    file = {"object_type": "DataSlice", "physical_hash": name, "size": size}
    source = {"url": url, "headers": [{"name": "x-odf-smtp-version", "value": "1"}], "expires_at": expires_at}
    strategy = {"object_file": file, "pull_strategy": "HttpDownload", "download_from": source}
    return json.dumps({"object_transfer_strategies": [strategy]})


class TestPull:
    def test_the_whole_conversation(self, parties: SmartParties) -> None:
        count, payload = archive_of(parties)
        name, data = data_of(parties)
        peer = Scripted(plan(count), blocks(count, payload), links(name, len(data), f"http://ours/data/{name}"))
        parties.theirs.conversations.serve(SERVED, "pull", peer)
        assert parties.smart_pull()["rows"] == 1
        parties.check_both()
        file = {"object_type": "DataSlice", "physical_hash": name, "size": len(data)}
        assert peer.heard == [
            {"begin_after": None, "stop_at": None, "force_update_if_diverged": False},
            {},
            {"object_files": [file]},
        ]
        assert peer.end == Closed(1000, "Client pull flow succeeded")

    def test_a_link_that_has_expired_is_asked_for_again(self, parties: SmartParties) -> None:
        count, payload = archive_of(parties)
        name, data = data_of(parties)
        old = links(name, len(data), "http://nowhere/", expires_at="2020-01-01T00:00:00Z")
        peer = Scripted(plan(count), blocks(count, payload), old, links(name, len(data), f"http://ours/data/{name}"))
        parties.theirs.conversations.serve(SERVED, "pull", peer)
        assert parties.smart_pull()["rows"] == 1

    def test_up_to_date(self, parties: SmartParties) -> None:
        peer = Scripted(plan(0))
        parties.theirs.conversations.serve(SERVED, "pull", peer)
        parties.smart_pull()
        assert peer.end == Closed(1000, "Client pull flow succeeded")

    @pytest.mark.parametrize(
        ("steps", "code", "says"),
        [
            (
                [INTERVAL],
                "chains-diverged",
                "",
            ),
            (
                ['{"Err":{"Internal":{"phase":{"Pull":"InitialRequest"},"error_message":"full"}}}'],
                "invalid-request",
                "full",
            ),
            (
                [Closed(1011, '{"Err":{"Internal":{"phase":{"Pull":"InitialRequest"},"error_message":"x"}}}')],
                "invalid-request",
                "x",
            ),
            ([Closed(1011, '{"Err":{"Internal":{"phase":{"Pull":"In')], "unavailable", "1011"),
            (["no json"], "corrupted-source", "does not keep to the Smart protocol"),
            (["[" * 100_000], "corrupted-source", "no JSON"),
            (['{"Ok":{"transfer_plan":{"num_blocks":-1}}}'], "corrupted-source", "num_blocks"),
            ([plan(10**12)], "limit-exceeded", "without odf+"),
            ([plan(3), blocks(3, [1, 2, 3])], "corrupted-source", "gzip"),
            ([plan(3), blocks(3, [1, 2, 256])], "corrupted-source", "0 to 255"),
        ],
        ids=["interval", "internal", "closed", "cut", "text", "deep", "negative", "long", "archive", "byte"],
    )
    def test_a_peer_that_refuses_or_speaks_wrongly(
        self, parties: SmartParties, steps: list[str | Closed], code: str, says: str
    ) -> None:
        parties.theirs.conversations.serve(SERVED, "pull", Scripted(*steps))
        refused = parties.smart_pull()
        assert (refused["code"], says in refused["message"]) == (code, True), refused

    def test_more_or_other_blocks_than_planned(self, parties: SmartParties) -> None:
        count, payload = archive_of(parties)
        for planned, announced in ((count + 1, count), (count, count + 1), (count - 1, count - 1)):
            peer = Scripted(plan(planned), blocks(announced, payload))
            parties.theirs.conversations.serve(SERVED, "pull", peer)
            assert parties.smart_pull()["code"] == "corrupted-source"

    def test_an_object_that_is_another(self, parties: SmartParties) -> None:
        count, payload = archive_of(parties)
        name, data = data_of(parties)
        peer = Scripted(plan(count), blocks(count, payload), links(name, len(data), "http://evil/x"))
        parties.theirs.conversations.serve(SERVED, "pull", peer)
        parties.theirs.linked_objects.serve("http://evil/", lambda _: b"something else", lambda *_: None)
        refused = parties.smart_pull()
        assert (refused["code"], name in refused["message"]) == ("corrupted-source", True)
        assert parties.theirs.node.repository.find(parties.entry.id) is None


class TestPush:
    def test_the_whole_conversation_with_questions_about_progress(self, parties: SmartParties) -> None:
        name, data = data_of(parties)
        count, _ = archive_of(parties)
        file = {"object_type": "DataSlice", "physical_hash": name, "size": len(data)}
        target: dict[str, object] = {"url": f"http://theirs/data/{name}", "headers": [], "expires_at": None}
        strategy = {"object_file": file, "push_strategy": "HttpUpload", "upload_to": target}
        heard: list[Any] = []
        taken: list[bytes] = []
        ends: list[Closed] = []
        uploaded = threading.Event()

        def peer(talk: Conversation) -> None:
            def hear() -> Any:
                found = talk.hear(seconds_max=20)
                assert isinstance(found, str), found
                heard.append(json.loads(found))
                return heard[-1]

            hear()
            talk.say('{"Ok":{}}')
            hear()
            talk.say('{"Ok":{}}')
            hear()

            def write(url: ObjectUrl, given: bytes) -> None:
                taken.append(given)
                talk.say("{}")
                hear()  # the client answers while it uploads
                uploaded.set()

            parties.ours.linked_objects.serve("http://theirs/", lambda _: b"", write)
            talk.say(json.dumps({"Ok": {"object_transfer_strategies": [strategy]}}))
            uploaded.wait(20)
            while hear() != {}:
                pass
            talk.say("{}")  # crossed the end of the uploads: a question, not the confirmation
            parties.theirs.objects.write_ref(
                f"{parties.entry.id.multibase}/refs/head", str(parties.ours.node.datasets.head(parties.entry).hash)
            )
            talk.say("{}")
            found = talk.hear(seconds_max=20)
            ends.extend([found] if isinstance(found, Closed) else [])

        parties.ours.conversations.serve(PLACE, "push", peer)
        sent = parties.smart_push(visibility=Visibility.PUBLIC)
        assert (sent["blocks"], sent["objects"]) == (count, 1)
        assert taken == [data]
        begin, new, objects, *progress = heard
        assert (begin["current_head"], begin["visibility_for_created_dataset"]) == (None, "Public")
        assert begin["transfer_plan"]["num_blocks"] == new["new_blocks"]["num_blocks"] == count
        assert objects == {"object_files": [file], "is_truncated": False}
        assert progress == [{"details": {"Running": {"uploaded_objects_count": 0}}}, {"details": "Complete"}, {}]
        assert ends == [Closed(1000, "Client push flow succeeded")]

    @pytest.mark.parametrize(
        ("steps", "code", "says"),
        [
            (
                ['{"Err":{"Internal":{"phase":{"Push":"InitialRequest"},"error_message":"full"}}}'],
                "invalid-request",
                "full",
            ),
            (
                ['{"Ok":{}}', Closed(1011, '{"Err":{"SeedBlockOverwriteRestricted":{}}}')],
                "invalid-request",
                "restricted",
            ),
            (
                ['{"Ok":{}}', '{"Ok":{}}', Closed(1011, '{"Err":{"NameCollision":{"dataset_alias":"a/b"}}}')],
                "already-exists",
                "a/b",
            ),
            (
                ['{"Ok":{}}', '{"Ok":{}}', Closed(1011, '{"Err":{"RefCollision":{"dataset_id":"ID"}}}')],
                "already-exists",
                "did:odf",
            ),
            (
                [
                    '{"Ok":{}}',
                    '{"Ok":{}}',
                    '{"Ok":{"object_transfer_strategies":[]}}',
                    None,
                    Closed(
                        1011,
                        '{"Err":{"Internal":{"phase":{"Push":"CompleteRequest"},"error_message":"Internal error"}}}',
                    ),
                ],
                "invalid-request",
                "Internal error",
            ),
            (
                ['{"Ok":{}}', '{"Ok":{}}', '{"Ok":{"object_transfer_strategies":[]}}', None, Closed(1006)],
                "outcome-unknown",
                "did not confirm",
            ),
            (['{"Maybe":{}}'], "corrupted-source", "Smart protocol"),
        ],
        ids=["internal", "seed", "name", "ref", "complete", "gone", "variant"],
    )
    def test_a_node_that_refuses_or_speaks_wrongly(
        self, parties: SmartParties, steps: list[str | Closed | None], code: str, says: str
    ) -> None:
        identity = str(parties.entry.id)
        filled = [
            Closed(each.code, each.reason.replace('"ID"', f'"{identity}"')) if isinstance(each, Closed) else each
            for each in steps
        ]
        parties.ours.conversations.serve(PLACE, "push", Scripted(*filled))
        refused = parties.smart_push()
        assert (refused["code"], says in refused["message"]) == (code, True), refused

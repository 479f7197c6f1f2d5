"""Clients that push what they should not: each is refused by name, the head stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.memory.transfer.conversations import MemoryConversation
from odfabric.domain.people.access import Subject
from odfabric.model.identity import DatasetAlias, KeyAccountId, Name
from odfabric.model.people.account import DatasetRole, Grant
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.ports.transfer.conversations import Closed
from odfabric.wiring.composed.renaming import rename
from tests.usecases.manifests import ROOT
from tests.usecases.transfer.sharing import BYTES_MAX
from tests.usecases.transfer.smart_parties import SmartParties
from tests.usecases.transfer.test_smart_transcripts import archive_of

WAIT_S = 20.0
OK = {"Ok": {}}


class Pusher:
    """A client that speaks by hand to `theirs`."""

    def __init__(self, parties: SmartParties, talk: MemoryConversation) -> None:
        self.parties, self.talk = parties, talk
        self.count, self.payload = archive_of(parties)
        prefix = f"{parties.entry.id.multibase}/data/"
        self.files = [
            {
                "object_type": "DataSlice",
                "physical_hash": key.rpartition("/")[2],
                "size": len(parties.ours.objects.read_bytes(key, size_max=BYTES_MAX)),
            }
            for key in parties.ours.objects.keys(prefix)
        ]

    def say(self, value: object) -> None:
        self.talk.say(json.dumps(value))

    def heard(self) -> Any:
        found = self.talk.hear(seconds_max=WAIT_S)
        return json.loads(found) if isinstance(found, str) else found

    def begin(self, *, force: bool = False) -> Any:
        plan = dict.fromkeys(("num_objects", "num_records", "bytes_in_raw_blocks", "bytes_in_raw_objects"), 1)
        self.say(
            {
                "current_head": None,
                "transfer_plan": {"num_blocks": self.count, **plan},
                "force_update_if_diverged": force,
                "visibility_for_created_dataset": "Private",
            }
        )
        return self.heard()

    def blocks(self) -> Any:
        batch = {"media_type": "application/tar+gzip", "encoding": "raw", "payload": self.payload}
        self.say({"new_blocks": {"num_blocks": self.count, **batch}})
        return self.heard()

    def objects(self, files: list[dict[str, Any]] | None = None, *, more: bool = False) -> Any:
        self.say({"object_files": self.files if files is None else files, "is_truncated": more})
        return self.heard()

    def upload(self) -> None:
        for file in self.files:
            name = file["physical_hash"]
            url = self.parties.takes.place("data", self.parties.ours.node.datasets.head(self.parties.entry).hash)
            key = f"{self.parties.entry.id.multibase}/data/{name}"
            data = self.parties.ours.objects.read_bytes(key, size_max=BYTES_MAX)
            self.parties.ours.linked_objects.upload(
                type(url)(url=f"http://theirs/data/{name}"), name=name, path=self._file(data)
            )

    def _file(self, data: bytes) -> Path:
        path = self.parties.folder / "uploaded"
        path.write_bytes(data)
        return path

    def done(self) -> Any:
        self.say({"details": "Complete"})
        self.say({})
        return self.heard()


class Parties(SmartParties):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.ingest(1)
        self.ingest(2)

    @contextmanager
    def pusher(self) -> Iterator[Pusher]:
        """A conversation about a push; the server has ended it after the context."""
        ours, theirs = MemoryConversation.pair()
        failed: list[BaseException] = []

        def serve() -> None:
            try:
                self.takes.push(theirs)
            except BaseException as error:  # noqa: BLE001  # shown by the test
                failed.append(error)
            finally:
                theirs.end(1006, "")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield Pusher(self, ours)
        finally:
            ours.end(1000, "")
            thread.join(WAIT_S)
        assert not thread.is_alive()
        assert failed == []

    def head(self) -> int | None:
        """Number of the newest block that is visible at `theirs`."""
        alias = DatasetAlias(Name("local"), Name("readings"))
        entry = self.theirs.node.repository.find(alias)
        return None if entry is None else self.theirs.node.datasets.head(entry).sequence_number


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    return Parties(tmp_path)


def refusal(found: Any, phase: str) -> str:
    """The message in a close frame of a phase."""
    assert isinstance(found, Closed), found
    error = json.loads(found.reason)["Err"]["Internal"]
    assert (found.code, error["phase"]) == (1011, {"Push": phase})
    return str(error["error_message"])


def test_the_whole_conversation(parties: Parties) -> None:
    with parties.pusher() as pusher:
        assert (pusher.begin(), pusher.blocks()) == (OK, OK)
        assert len(pusher.objects()["Ok"]["object_transfer_strategies"]) == 2
        pusher.upload()
        assert pusher.done() == {}
    parties.check_both()


def test_blocks_whose_objects_never_come(parties: Parties) -> None:
    with parties.pusher() as pusher:
        pusher.begin()
        pusher.blocks()
        pusher.objects()
        assert refusal(pusher.done(), "CompleteRequest").startswith("data object f1620")
    assert parties.head() == 0


@pytest.mark.parametrize("same", [True, False], ids=["same portion", "empty portion"])
def test_portions_without_an_end(parties: Parties, same: bool) -> None:
    with parties.pusher() as pusher:
        pusher.begin()
        pusher.blocks()
        found = None
        for _ in range(10):
            found = pusher.objects(pusher.files[:1] if same else [], more=True)
            if isinstance(found, Closed):
                break
        assert "names nothing new" in refusal(found, "ObjectsRequest")


@pytest.mark.parametrize("uploaded", [0, 10**15], ids=["again and again", "more than there are"])
def test_progress_without_an_end(parties: Parties, uploaded: int) -> None:
    with parties.pusher() as pusher:
        pusher.begin()
        pusher.blocks()
        pusher.objects()
        for _ in range(200):
            pusher.say({"details": {"Running": {"uploaded_objects_count": uploaded}}})
        assert "endless progress" in refusal(pusher.heard(), "ObjectsUploadProgress")


@pytest.mark.parametrize("member", ["physical_hash", "size", "object_type"])
def test_objects_that_no_new_block_names(parties: Parties, member: str) -> None:
    """Of other datasets, or of this one with another size or kind."""
    other = parties.theirs.add(ROOT.replace("name: readings", "name: secret"))
    del other
    value = {"physical_hash": "f1620" + "ab" * 32, "size": 10**18, "object_type": "Checkpoint"}[member]
    with parties.pusher() as pusher:
        pusher.begin()
        pusher.blocks()
        assert "no new block names" in refusal(pusher.objects([{**pusher.files[0], member: value}]), "ObjectsRequest")


def test_an_object_that_another_dataset_has_is_to_be_uploaded(parties: Parties) -> None:
    """That its hash is known is no proof that the client has it."""
    other = parties.theirs.add(ROOT.replace("name: readings", "name: secret"))
    with parties.pusher() as pusher:
        for file in pusher.files:
            name = file["physical_hash"]
            data = parties.ours.objects.read_bytes(f"{parties.entry.id.multibase}/data/{name}", size_max=BYTES_MAX)
            parties.theirs.objects.put_bytes(f"{other.id.multibase}/data/{name}", data)
        pusher.begin()
        pusher.blocks()
        strategies = pusher.objects()["Ok"]["object_transfer_strategies"]
        assert {each["push_strategy"] for each in strategies} == {"HttpUpload"}
        assert refusal(pusher.done(), "CompleteRequest").startswith("data object f1620")


class Step:
    """How far a client goes before it leaves."""

    ALL: tuple[Callable[[Pusher], object], ...] = (
        lambda pusher: pusher.begin(),
        lambda pusher: pusher.blocks(),
        lambda pusher: pusher.objects(),
        lambda pusher: pusher.upload(),
        lambda pusher: pusher.say({"details": "Complete"}),
    )


@pytest.mark.parametrize("steps", range(len(Step.ALL) + 1))
def test_a_client_that_leaves_at_any_step_leaves_nothing_visible(parties: Parties, steps: int) -> None:
    with parties.pusher() as pusher:
        for step in Step.ALL[:steps]:
            step(pusher)
    assert parties.head() in (None, 0)
    assert parties.smart_push()["upToDate"] is False
    parties.check_both()


def test_force_without_its_right(parties: Parties) -> None:
    """A right to push is none to replace history."""
    assert parties.smart_push()["upToDate"] is False
    before = parties.head()
    parties.rewrite(1)
    parties.ingest(3)
    account = parties.theirs.node.operator.account
    assert account is not None
    mia = replace(account, id=KeyAccountId(bytes(32)), name=Name("mia"), is_admin=False)
    role = Grant(dataset=parties.entry.id, grantee=mia.id, role=DatasetRole.MAINTAINER)
    audit = AuditEntry(kind=AuditKind.ROLE_GRANTED, actor=THE_NODE, at=parties.theirs.clock.now(), target="mia")
    parties.theirs.node.ports.accounts.create(mia, audit=audit)
    parties.theirs.node.ports.relations.change_grant(None, role, audit=audit)
    parties.takes.now = lambda _: Subject(account=mia)  # type: ignore[method-assign]
    refused = parties.smart_push(force=True)
    assert (refused.get("code"), "refuses" in refused["message"]) == ("invalid-request", True), refused
    assert parties.head() == before


@pytest.mark.parametrize("taken", [False, True], ids=["renamed", "and another in its place"])
def test_a_dataset_that_is_renamed_while_it_is_pushed(parties: Parties, taken: bool) -> None:
    with parties.pusher() as pusher:
        pusher.begin()
        pusher.blocks()
        pusher.objects()
        pusher.upload()
        node = parties.theirs.node
        entry = node.datasets.resolve(parties.entry.id)
        rename(node, entry, "elsewhere")
        if taken:
            parties.theirs.add(ROOT)
        found = pusher.done()
        assert refusal(found, "CompleteRequest")
    moved = parties.theirs.node.datasets.resolve(parties.entry.id)
    assert parties.theirs.node.datasets.head(moved).sequence_number == 0

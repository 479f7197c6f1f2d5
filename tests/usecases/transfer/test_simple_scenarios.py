"""Scenarios of transfers by the Simple protocol, each by its name.

Pushes to a shelf, pulls from it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan, SeenCall
from odfabric.model.people.audit import AuditKind
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.transfer.sharing import PLACE, Parties


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    return Parties(tmp_path)


def kinds(node: MemoryNode) -> list[AuditKind]:
    return [stored.entry.kind for stored in node.node.ports.audit.page(limit=100)]


class TestPull:
    def test_new_empty(self, parties: Parties) -> None:
        parties.push()
        assert parties.pull()["rows"] == 0
        parties.check_same()

    def test_new(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        assert parties.pull()["rows"] == 1
        parties.check_same()

    def test_existing_evolved(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        parties.pull()
        parties.ingest(2)
        parties.push()
        assert parties.pull()["offsets"] == {"start": 1, "end": 1}
        parties.check_same()

    def test_existing_up_to_date(self, parties: Parties) -> None:
        parties.push()
        parties.pull()
        assert parties.pull()["upToDate"] is True

    def test_existing_diverged(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        parties.pull()
        parties.rewrite(1)
        parties.ingest(2)
        parties.ingest(3)
        parties.push(force=True)
        refused = parties.pull()
        assert refused["code"] == "chains-diverged"
        assert "the destination has 2 blocks" in refused["message"]
        assert "the source 3 " in refused["message"]
        assert parties.pull(force=True)["rows"] == 2
        parties.check_same()
        assert AuditKind.HISTORY_REPLACED in kinds(parties.theirs)

    def test_existing_destination_advanced(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        old = parties.shelf.read_ref("refs/head")
        parties.ingest(2)
        parties.push()
        parties.pull()
        assert old is not None
        parties.shelf.write_ref("refs/head", old)
        refused = parties.pull()
        assert (refused["code"], refused["message"].split(":")[0]) == ("corrupted-source", "rollback")
        assert parties.pull(force=True)["head"] == old
        assert str(parties.theirs.node.datasets.head(parties.copy).hash) == old

    def test_aborted_read_of_new_then_read_again(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.ingest(2)
        parties.push()
        self._abort_and_repeat(parties, "copy")
        parties.check_same()

    def test_aborted_read_of_evolved_then_read_again(self, parties: Parties) -> None:
        parties.push()
        parties.pull()
        parties.ingest(1)
        parties.ingest(2)
        parties.push()
        self._abort_and_repeat(parties, "copy")
        parties.check_same()

    def test_not_existing(self, parties: Parties) -> None:
        assert parties.pull("shelf/local/nothing")["code"] == "not-found"

    @staticmethod
    def _abort_and_repeat(parties: Parties, name: str) -> None:
        """The second download fails as often as a job is tried.

        What came before is not fetched again.
        """
        downloads = 0

        def decide(number: int, call: SeenCall) -> Fault | None:
            nonlocal downloads
            downloads += call.name == "remote.download"
            return Fault.BEFORE if call.name == "remote.download" and downloads > 1 else None

        parties.theirs.restart(FaultPlan(decide))
        assert parties.pull(name=name)["code"] == "unavailable"
        watching = FaultPlan()
        parties.theirs.restart(watching)
        assert parties.pull(name=name)["upToDate"] is False
        assert [call.name for call in watching.calls].count("remote.download") == 1
        parties.theirs.restart()


class TestPush:
    def test_new_empty(self, parties: Parties) -> None:
        assert parties.push()["upToDate"] is False
        parties.pull()
        parties.check_same()

    def test_new(self, parties: Parties) -> None:
        parties.ingest(1)
        sent = parties.push(PLACE)
        assert (sent["objects"], sent["to"]) == (1, PLACE)
        parties.pull()
        parties.check_same()

    def test_new_via_repo_ref(self, parties: Parties) -> None:
        parties.ingest(1)
        sent = parties.push("shelf/local/readings")
        assert (sent["objects"], sent["to"]) == (1, "shelf/local/readings")
        assert parties.push(None)["upToDate"] is True

    def test_existing_evolved(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        parties.ingest(2)
        sent = parties.push()
        assert (sent["blocks"], sent["objects"]) == (1, 1)

    def test_up_to_date(self, parties: Parties) -> None:
        parties.push()
        assert parties.push() | {"blocks": 0} == parties.push()

    def test_diverged(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        parties.rewrite(1)
        parties.ingest(2)
        refused = parties.push()
        assert refused["code"] == "chains-diverged"
        sent = parties.push(force=True)
        assert (sent["replacedBlocks"], sent["blocks"]) == (2, 2)
        parties.pull()
        assert parties.theirs.node.datasets.head(parties.copy) == parties.ours.node.datasets.head(parties.entry)

    def test_destination_advanced(self, parties: Parties) -> None:
        parties.ingest(1)
        parties.push()
        parties.rewrite(1)
        refused = parties.push()
        assert (refused["code"], "by 2 blocks" in refused["message"]) == ("destination-ahead", True)
        assert parties.push(force=True)["replacedBlocks"] == 2
        assert parties.shelf.read_ref("refs/head") == str(parties.ours.node.datasets.head(parties.entry).hash)

    def test_another_dataset_is_there(self, parties: Parties, tmp_path: Path) -> None:
        other = Parties(tmp_path / "other", seed=7)
        other.ours.remote_stores.share(PLACE, parties.shelf)
        other.ingest(1)
        other.push()
        before = parties.shelf.read_ref("refs/head")
        for force in (False, True):
            refused = parties.push(force=force)
            assert (refused["code"], "another place" in refused["hint"]) == ("invalid-request", True)
        assert parties.shelf.read_ref("refs/head") == before

    def test_a_damaged_object_here_is_not_spread(self, parties: Parties) -> None:
        parties.ingest(1)
        (key,) = parties.ours.objects.keys(f"{parties.entry.id.multibase}/data/")
        parties.ours.objects.delete(key)
        parties.ours.objects.put_bytes(key, b"something else")
        assert parties.push()["code"] == "corrupt"
        assert list(parties.shelf.keys("")) == []

    def test_a_damaged_object_there_is_replaced(self, parties: Parties) -> None:
        parties.ingest(1)
        (key,) = parties.ours.objects.keys(f"{parties.entry.id.multibase}/data/")
        parties.shelf.put_bytes("data/" + key.rpartition("/")[2], b"cut off")
        parties.push()
        parties.pull()
        parties.check_same()

"""Signed heads between two parties: what travels, and each tampering by its name."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import AccessDenied, InvalidRequest, NotFound
from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.identifiers.dataset_layout import HEAD, HEAD_LOG, HEAD_SIGNATURE, head_log_key, head_signature_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.heads.head_log import SEGMENT_ENTRIES
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.audit import AuditKind
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.heads.send_log import RENEWED_AFTER_S
from tests.usecases.transfer.sharing import BYTES_MAX, PLACE, Parties


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    found = Parties(tmp_path)
    found.ingest(1)
    found.push()
    return found


def moves(node: MemoryNode, entry: CatalogEntry) -> list[dict[str, Any]]:
    value: Any = node.node.heads.described(entry).to_value()["moves"]
    return list(value)


def kinds(node: MemoryNode, entry: CatalogEntry) -> list[str]:
    return [each["kind"] for each in moves(node, entry)][::-1]


def kept(shelf: ObjectStore) -> dict[str, bytes]:
    return {key: shelf.read_bytes(key, size_max=BYTES_MAX) for key in shelf.keys("")}


def lay(shelf: ObjectStore, files: dict[str, bytes]) -> None:
    """Make the shelf hold these files and nothing else."""
    for key in list(shelf.keys("")):
        shelf.delete(key)
    for key, data in files.items():
        if key.startswith(("refs/", "info/")):
            shelf.write_ref(key, data.decode("latin-1"))
        else:
            shelf.put_bytes(key, data)


class Asked(dict[str, bytes]):
    """Files of a place, which notes what is read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.paths: list[str] = []

    def get(self, path: str, default: Any = None) -> Any:
        self.paths.append(path)
        return super().get(path, default)


def rule_of(parties: Parties) -> str:
    """What a verification of the shelf by the other party finds first.

    Empty if nothing.
    """
    report: Any = parties.theirs.node.sharing.verify(PLACE)
    return str(report["errors"][0]["kind"]) if report["errors"] else ""


class TestTravels:
    def test_each_move_is_an_entry(self, parties: Parties) -> None:
        assert kinds(parties.ours, parties.entry)[0] == "created"
        assert set(kinds(parties.ours, parties.entry)[1:]) == {"append"}
        found = moves(parties.ours, parties.entry)
        assert found[0]["newHead"] == str(parties.ours.node.datasets.head(parties.entry).hash)

    def test_a_copy_has_the_log(self, parties: Parties) -> None:
        parties.pull()
        assert moves(parties.theirs, parties.copy) == moves(parties.ours, parties.entry)
        key = head_log_key(parties.entry.id)
        assert parties.theirs.objects.read_ref(key) == parties.shelf.read_ref(HEAD_LOG)
        assert parties.theirs.objects.read_ref(head_signature_key(parties.entry.id)) == parties.shelf.read_ref(
            HEAD_SIGNATURE
        )

    def test_what_a_copy_publishes_is_verified_by_others(self, parties: Parties) -> None:
        parties.pull()
        for path in (HEAD_LOG, HEAD_SIGNATURE):
            assert parties.theirs.node.heads.file(parties.copy, path) == parties.shelf.read_bytes(path, size_max=9999)

    def test_nothing_new_is_seen_by_three_small_files(self, parties: Parties) -> None:
        parties.pull()
        asked = Asked(kept(parties.shelf))
        parties.theirs.remotes.publish(PLACE, asked)
        assert parties.pull()["upToDate"] is True
        assert asked.paths == [HEAD, HEAD_SIGNATURE, HEAD_LOG]
        parties.theirs.remote_stores.share(PLACE, parties.shelf)
        parties.ours.node.heads.rotate(parties.entry, by=parties.ours.node.operator)
        parties.push()
        assert parties.pull()["upToDate"] is True
        assert moves(parties.theirs, parties.copy)[0]["kind"] == "handed-over"

    def test_many_moves(self, parties: Parties) -> None:
        parties.pull()
        for _ in range(SEGMENT_ENTRIES // 2 + 1):
            entry = parties.ours.node.datasets.resolve(parties.entry.id)
            parties.ours.node.heads.rotate(entry, by=parties.ours.node.operator)
        parties.push()
        parties.pull()
        for _ in range(SEGMENT_ENTRIES):
            entry = parties.ours.node.datasets.resolve(parties.entry.id)
            parties.ours.node.heads.rotate(entry, by=parties.ours.node.operator)
        parties.ingest(2)
        parties.push()
        assert parties.shelf.stat(f"{HEAD_LOG}.0") is not None
        assert parties.pull()["rows"] == 1
        ours = parties.ours.node.ports.head_logs.lines(parties.entry.id, first=0, limit=1000)
        assert parties.theirs.node.ports.head_logs.lines(parties.entry.id, first=0, limit=1000) == ours
        assert len(ours) > SEGMENT_ENTRIES
        assert rule_of(parties) == ""
        parties.shelf.delete(f"{HEAD_LOG}.0")
        stranger = Parties.__new__(Parties)
        stranger.theirs = parties.ours
        parties.theirs.store.head_logs.clear()
        assert rule_of(parties) == "head-log-tampered"

    def test_moves_without_entries_are_caught_up(self, parties: Parties) -> None:
        """As if an older version had moved the head."""
        log = parties.ours.store.head_logs[parties.entry.id]
        del log[1:]
        parties.ingest(2)
        assert kinds(parties.ours, parties.entry) == ["created", "append"]
        parties.ours.store.head_logs[parties.entry.id].clear()
        parties.ingest(3)
        assert kinds(parties.ours, parties.entry) == ["started"]

    def test_history_that_is_replaced_says_so(self, parties: Parties) -> None:
        parties.pull()
        parties.rewrite(1)
        parties.ingest(2)
        parties.push(force=True)
        assert parties.pull()["code"] in ("chains-diverged", "corrupted-source")
        parties.pull(force=True)
        assert kinds(parties.theirs, parties.copy)[-2:] == ["reset", "append"]
        assert rule_of(parties) == ""


class TestTampering:
    def test_any_changed_file(self, parties: Parties) -> None:
        files = kept(parties.shelf)
        for path, data in files.items():
            if path.startswith("info/"):
                continue  # a name that people may change
            for at in (0, len(data) // 2, len(data) - 1):
                changed = bytearray(data)
                changed[at] ^= 1
                lay(parties.shelf, {**files, path: bytes(changed)})
                assert self.is_named(parties), f"byte {at} of {path}"

    def test_any_missing_file(self, parties: Parties) -> None:
        parties.theirs.node.sharing.verify(PLACE)
        files = kept(parties.shelf)
        for path in files:
            if not path.startswith("info/"):
                lay(parties.shelf, {name: data for name, data in files.items() if name != path})
                assert self.is_named(parties), path

    def is_named(self, parties: Parties) -> bool:
        try:
            return rule_of(parties) != ""
        except NotFound:
            return True

    def test_an_old_answer(self, parties: Parties) -> None:
        old = kept(parties.shelf)
        parties.ingest(2)
        parties.push()
        assert rule_of(parties) == ""
        lay(parties.shelf, old)
        assert rule_of(parties) == "head-log-freeze"
        refused = parties.pull()
        assert (refused["code"], refused["message"].split(":")[0]) == ("corrupted-source", "freeze")
        assert parties.pull(force=True)["rows"] == 1

    def test_a_head_that_was_set_back(self, parties: Parties) -> None:
        old = parties.shelf.read_ref(HEAD)
        parties.ingest(2)
        parties.push()
        assert rule_of(parties) == ""
        parties.shelf.write_ref(HEAD, str(old))
        assert rule_of(parties) == "head-log-rollback"

    def test_a_log_that_its_signer_took_back(self, parties: Parties) -> None:
        parties.ingest(2)
        parties.push()
        assert rule_of(parties) == ""
        parties.rewrite(1)
        del parties.ours.store.head_logs[parties.entry.id][1:]
        parties.push(force=True)
        assert rule_of(parties) in ("head-log-rollback", "head-log-fork")

    def test_two_histories_of_one_key(self, parties: Parties) -> None:
        parties.ingest(2)
        parties.push()
        parties.pull()
        parties.rewrite(1)
        log = parties.ours.store.head_logs[parties.entry.id]
        del log[1:]
        for day in (3, 4, 5):
            parties.ingest(day)
        assert "fork" in parties.push()["message"]
        parties.push(force=True)
        assert rule_of(parties) == "head-log-fork"
        assert "fork" in parties.pull()["message"]
        parties.pull(force=True)
        assert moves(parties.theirs, parties.copy) == moves(parties.ours, parties.entry)
        audit = [each.entry.detail for each in parties.theirs.node.ports.audit.page(limit=100)]
        assert any(detail.get("headLog") == "replaced" for detail in audit)

    @pytest.mark.parametrize("gone", [(HEAD_LOG,), (HEAD_SIGNATURE,), (HEAD_LOG, HEAD_SIGNATURE)])
    def test_a_pull_of_nothing_new_names_files_that_were_taken_away(
        self, parties: Parties, gone: tuple[str, ...]
    ) -> None:
        parties.pull()
        for path in gone:
            parties.shelf.delete(path)
        refused = parties.pull()
        assert (refused.get("code"), refused["message"].split(":")[0]) == ("corrupted-source", "missing")

    def test_a_pull_of_nothing_new_names_a_changed_entry(self, parties: Parties) -> None:
        parties.pull()
        text = str(parties.shelf.read_ref(HEAD_LOG))
        at = text.index('"kind":"append"')
        parties.shelf.write_ref(HEAD_LOG, text[:at] + text[at:].replace("append", "reset", 1))
        assert parties.pull().get("code") == "corrupted-source"

    def test_who_has_only_verified_a_place_misses_its_log_too(self, parties: Parties) -> None:
        assert rule_of(parties) == ""
        for path in (HEAD_LOG, HEAD_SIGNATURE):
            parties.shelf.delete(path)
        assert "missing" in parties.pull()["message"]

    def test_a_log_that_was_taken_away(self, parties: Parties) -> None:
        parties.pull()
        for path in (HEAD_LOG, HEAD_SIGNATURE):
            parties.shelf.delete(path)
        assert rule_of(parties) == "head-log-missing"
        assert "missing" in parties.pull()["message"]

    def test_another_key(self, parties: Parties) -> None:
        """Nobody signs blocks of their own without a key."""
        ours = parties.ours.node.ports
        keys = ours.keys.create(parties.entry.id)
        entry = parties.ours.node.datasets.resolve(parties.entry.id)
        ours.head_logs.hand_over(entry.id, (), sealed_key=keys.sealed_private)
        before = len(moves(parties.ours, entry))
        parties.ingest(2)
        assert len(moves(parties.ours, entry)) == before, "what is not the dataset's key signs nothing"
        assert parties.push()["blocks"] > 0
        assert rule_of(parties) == "head-unsigned"

    def test_an_old_signature(self, parties: Parties) -> None:
        node = parties.theirs
        node.settings = node.settings.model_copy(update={"head_age_s_max": 60.0})
        node.restart()
        node.remote_stores.share(PLACE, parties.shelf)
        node.clock.set(Instant(parties.ours.clock.now().epoch_ns + 3600 * NANOS_PER_SECOND))
        assert rule_of(parties) == "head-log-freeze"

    def test_a_push_of_nothing_else_renews_an_old_signature(self, parties: Parties) -> None:
        before = kept(parties.shelf)
        parties.push()
        assert kept(parties.shelf) == before, "a young one stays"
        parties.ours.clock.advance(RENEWED_AFTER_S * 1000)
        assert parties.push()["upToDate"]
        changed = {path for path, data in kept(parties.shelf).items() if before.get(path) != data}
        assert changed == {HEAD_SIGNATURE}

    def test_a_worker_renews_the_signature_of_a_head_that_rests(self, parties: Parties) -> None:
        parties.pull()
        key = head_signature_key(parties.entry.id)
        ours, theirs = parties.ours.objects.read_ref(key), parties.theirs.objects.read_ref(key)
        parties.ours.node.background.keep_house()
        assert parties.ours.objects.read_ref(key) == ours, "a young one stays"
        for node in (parties.ours, parties.theirs):
            node.clock.advance(round(node.settings.head_signature_s_max * 1000))
            node.restart()
            node.node.background.keep_house()
        assert parties.ours.objects.read_ref(key) != ours
        assert parties.theirs.objects.read_ref(key) == theirs, "a copy keeps the signature that came with it"

    def test_who_has_the_log_hears_who_signs_since_when_too(self, parties: Parties) -> None:
        node = parties.ours.node
        node.heads.rotate(parties.entry, by=node.operator)
        parties.push()
        first: Any = parties.theirs.node.sharing.verify(PLACE)
        parties.pull()
        again: Any = parties.theirs.node.sharing.verify(PLACE)
        assert len(first["signed"]["handOvers"]) == 1
        assert first["signed"]["since"] == first["signed"]["handOvers"][0]["systemTime"]
        assert again["signed"] == first["signed"]

    def test_a_place_without_logs(self, tmp_path: Path) -> None:
        """As clients of the reference leave it."""
        parties = Parties(tmp_path)
        parties.push()
        for path in (HEAD_LOG, HEAD_SIGNATURE):
            parties.shelf.delete(path)
        report: Any = parties.theirs.node.sharing.verify(PLACE)
        assert (report["ok"], report["signed"]) == (True, None)
        assert parties.pull()["rows"] == 0


class TestKeys:
    def test_hand_over(self, parties: Parties) -> None:
        parties.pull()
        node, entry = parties.ours.node, parties.entry
        public = node.heads.rotate(entry, by=node.operator)
        parties.ingest(2)
        parties.push()
        assert parties.pull()["rows"] == 1
        page = parties.theirs.node.heads.described(parties.copy)
        assert page.signer == shown_key(public) != shown_key(entry.id.key)
        assert [each.next_signer for each in page.handovers] == [public]
        assert AuditKind.DATASET_KEY_ROTATED in [each.entry.kind for each in node.ports.audit.page(limit=100)]

    def test_export_and_import(self, parties: Parties) -> None:
        parties.pull()
        node, other = parties.ours.node, parties.theirs.node
        found = node.heads.export(parties.entry, by=node.operator)
        assert found.private.hex() not in repr(found)
        assert base64.b64encode(found.private).decode() not in repr(found)
        with pytest.raises(AccessDenied):
            other.heads.rotate(parties.copy, by=other.operator)
        with pytest.raises(InvalidRequest):
            other.heads.import_(parties.copy, bytes(32), by=other.operator)
        other.heads.import_(parties.copy, found.private, by=other.operator)
        assert other.heads.described(parties.copy).can_sign
        assert other.heads.rotate(parties.copy, by=other.operator)
        assert kinds(parties.theirs, parties.copy)[-1] == "handed-over"

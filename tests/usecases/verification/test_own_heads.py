"""Verification judges the stored head log, and who signed engine records.

A pull judges the lineage of a log, whatever the protocol.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.heads.signed_record import record_to_sign, signed_record
from odfabric.formats.identifiers.dataset_layout import dataset_prefix, engine_records_prefix
from odfabric.model.commit import CatalogEntry
from odfabric.model.heads.head_log import APPENDED
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.transfer.sharing import Parties, ended
from tests.usecases.transfer.smart_parties import SERVED, SmartParties

SIGNED_AGAIN_MS = 61_000
"""After that the signature that is published is made again, and a reader looks at the log."""


@pytest.fixture
def parties(tmp_path: Path) -> SmartParties:
    found = SmartParties(tmp_path)
    for day in (1, 2):
        found.ingest(day)
    prefix = dataset_prefix(found.entry.id)
    found.theirs.remotes.publish_store(SERVED, found.ours.objects, prefix=prefix)
    return found


def verified(node: MemoryNode, entry: CatalogEntry, *, report: bool = False) -> dict[str, Any]:
    return ended(node, node.node.requests.verify(entry, VerifyOptions(report=report)))


def reported(parties: SmartParties) -> dict[str, Any]:
    """The signed report of the dataset's maker."""
    found: dict[str, Any] = verified(parties.ours, parties.entry, report=True)["report"]["report"]
    return found


def go_back_without_saying_so(parties: Parties) -> None:
    """Sign entries by which an older block follows the head, and the head that."""
    core = parties.ours.node.core
    entry = core.repository.resolve(parties.entry.id)
    rows = list(core.repository.rows_down(entry.id))
    parties.ours.clock.advance(SIGNED_AGAIN_MS)
    for target in (rows[1].hash, rows[0].hash):
        core.ports.head_logs.add(entry.id, core.heads.writer.moves(entry, rows[0].hash, target, APPENDED))
    core.commits.publish_log(entry.id)


class TestOwnLog:
    def test_says_who_signs(self, parties: SmartParties) -> None:
        found = reported(parties)
        assert found["ok"], found
        assert found["signed"]["signer"] == shown_key(parties.entry.id.key)
        assert found["signed"]["entries"] == len(parties.ours.store.head_logs[parties.entry.id])

    def test_without_a_log_nothing_is_said(self, parties: SmartParties) -> None:
        parties.ours.store.head_logs[parties.entry.id].clear()
        found = reported(parties)
        assert (found["ok"], found["signed"]) == (True, None)

    def test_an_entry_that_was_damaged(self, parties: SmartParties) -> None:
        log = parties.ours.store.head_logs[parties.entry.id]
        for at, entry in enumerate(list(log)):
            log[at] = replace(entry, line=entry.line.replace(b'"kind":"', b'"kind":"x'))
            assert self.wrong(parties) == ["HeadLogInvalid"]
            log[at] = entry
        del log[1]
        assert self.wrong(parties) == ["HeadLogInvalid"]

    def test_a_lineage_that_is_not_so(self, parties: SmartParties) -> None:
        go_back_without_saying_so(parties)
        found = verified(parties.ours, parties.entry)
        assert "older block without saying so" in found["errors"][0]["message"]

    def test_another_history_than_the_one_that_was_seen(self, parties: SmartParties) -> None:
        parties.push()
        parties.pull()
        seen = parties.theirs.store.heads_seen
        number = len(parties.ours.store.head_logs[parties.entry.id]) - 1
        known = seen[parties.entry.id]
        assert known.sequence == number
        other = parties.theirs.node.core.log_judge.kept(parties.entry.id, 0)
        assert other is not None
        seen[parties.entry.id] = replace(known, log=other.hash)
        assert "head-log-fork" in verified(parties.theirs, parties.copy)["errors"][0]["message"]

    def test_a_copy_whose_newest_blocks_nobody_signed(self, parties: SmartParties) -> None:
        parties.push()
        parties.pull()
        del parties.theirs.store.head_logs[parties.entry.id][-1]
        found = verified(parties.theirs, parties.copy)
        assert found["ok"]
        assert found["skipped"][0].startswith("head-unsigned")

    def wrong(self, parties: SmartParties) -> list[str]:
        return [each["kind"] for each in verified(parties.ours, parties.entry)["errors"]]


class TestEngineRecords:
    def test_by_a_key_of_the_dataset_or_by_nobody(self, parties: SmartParties) -> None:
        core = parties.ours.node.core
        self.record(parties, 0, signed=core.heads.writer)
        parties.ours.node.heads.rotate(core.repository.resolve(parties.entry.id), by=parties.ours.node.operator)
        self.record(parties, 1, signed=core.heads.writer)
        self.record(parties, 2, signed=None)
        found = reported(parties)
        assert found["ok"], found
        assert found["signed"]["engineRecords"] == {"signed": 2, "unsigned": 1}

    def test_by_a_key_that_never_signed_for_it(self, parties: SmartParties) -> None:
        ports = parties.ours.node.ports
        other = ports.keys.create(parties.entry.id)
        value: dict[str, Any] = {"block": str(parties.ours.node.datasets.head(parties.entry).hash), "outcome": "made"}
        signature = ports.keys.sign(parties.entry.id, other.sealed_private, record_to_sign(parties.entry.id, value))
        self.put(parties, 0, signed_record(value, other.public, signature))
        (problem,) = verified(parties.ours, parties.entry)["errors"]
        assert (problem["kind"], problem["block"]) == ("EngineRecordInvalid", value["block"])
        assert shown_key(other.public) in problem["message"]

    def test_by_a_former_key_only_up_to_the_first_move_after_it_was_handed_over(self, parties: SmartParties) -> None:
        core, node = parties.ours.node.core, parties.ours.node
        former = core.repository.resolve(parties.entry.id)
        node.heads.rotate(former, by=node.operator)
        parties.ingest(3)  # may have been under way
        self.record_by(parties, 0, former)
        assert verified(parties.ours, parties.entry)["errors"] == []
        parties.ingest(4)
        self.record_by(parties, 1, former)
        (problem,) = verified(parties.ours, parties.entry)["errors"]
        assert (problem["kind"], problem["block"]) == ("EngineRecordInvalid", str(node.datasets.head(former).hash))
        assert f"signed by {shown_key(former.id.key)}, which was handed over" in problem["message"]

    def test_one_that_was_changed(self, parties: SmartParties) -> None:
        self.record(parties, 0, signed=parties.ours.node.core.heads.writer, outcome="differs")
        (problem,) = verified(parties.ours, parties.entry)["errors"]
        assert problem["kind"] == "EngineRecordInvalid"

    def record(self, parties: SmartParties, number: int, *, signed: Any, outcome: str = "made") -> None:
        value: dict[str, Any] = {"block": str(parties.ours.node.datasets.head(parties.entry).hash), "outcome": "made"}
        if signed is not None:
            made = signed.sign(parties.entry.id, record_to_sign(parties.entry.id, value))
            value = signed_record(value, *made)
        self.put(parties, number, {**value, "outcome": outcome})

    def record_by(self, parties: SmartParties, number: int, former: CatalogEntry) -> None:
        """A record about the head by the key that the dataset was made with."""
        value: dict[str, Any] = {"block": str(parties.ours.node.datasets.head(former).hash), "outcome": "made"}
        assert former.sealed_key is not None
        signature = parties.ours.node.ports.keys.sign(former.id, former.sealed_key, record_to_sign(former.id, value))
        self.put(parties, number, signed_record(value, former.id.key, signature))

    def put(self, parties: SmartParties, number: int, value: Any) -> None:
        head = parties.ours.node.datasets.head(parties.entry).hash
        key = f"{engine_records_prefix(parties.entry.id, head)}{number:032}/made"
        parties.ours.objects.put_bytes(key, json.dumps(value).encode())


class TestLineageOfPulls:
    def test_by_the_smart_protocol(self, parties: SmartParties) -> None:
        go_back_without_saying_so(parties)
        refused = parties.smart_pull()
        assert (refused["code"], refused["rule"]) == ("corrupted-source", "head-log-tampered")
        assert parties.theirs.node.core.repository.find(parties.entry.id) is None

    def test_where_no_blocks_are_new(self, parties: SmartParties) -> None:
        assert parties.smart_pull()["upToDate"] is False
        go_back_without_saying_so(parties)
        assert parties.smart_pull()["rule"] == "head-log-tampered"

    def test_a_log_goes_on_without_blocks(self, parties: SmartParties) -> None:
        parties.smart_pull()
        parties.ours.clock.advance(SIGNED_AGAIN_MS)
        node = parties.ours.node
        signer = node.heads.rotate(node.core.repository.resolve(parties.entry.id), by=node.operator)
        assert parties.smart_pull()["upToDate"] is True
        assert parties.theirs.node.heads.described(parties.copy).signer == shown_key(signer)

    def test_a_log_that_is_ahead_of_the_blocks_is_kept_up_to_them(self, parties: SmartParties) -> None:
        core = parties.ours.node.core
        head = core.repository.head(parties.entry.id).hash
        older = list(core.repository.rows_down(parties.entry.id))[1].hash
        entry = core.repository.resolve(parties.entry.id)
        core.ports.head_logs.add(entry.id, core.heads.writer.moves(entry, head, older, "reset"))
        core.commits.publish_log(entry.id)
        assert parties.smart_pull()["upToDate"] is False
        kept = parties.theirs.store.head_logs[parties.entry.id]
        assert kept == parties.ours.store.head_logs[parties.entry.id][: len(kept)]
        assert kept[-1].move.new_head == head
        assert verified(parties.theirs, parties.copy)["ok"]

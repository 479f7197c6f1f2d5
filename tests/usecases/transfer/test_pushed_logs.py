"""A pushed head log is judged like a pulled one, its lineage included."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from odfabric.domain.heads.head_history import LogEnd
from odfabric.errors import CorruptedSource, InvalidRequest
from odfabric.formats.heads.head_log import (
    entry_to_sign,
    segment_text,
    signed_move,
    signed_statement,
    statement_to_sign,
)
from odfabric.formats.identifiers.dataset_layout import HEAD_LOG, HEAD_SIGNATURE
from odfabric.model.heads.head_log import (
    APPENDED,
    CREATED,
    REPLACED,
    SEGMENT_ENTRIES,
    HeadMove,
    HeadStatement,
    SignedMove,
)
from odfabric.model.instant import Instant
from odfabric.model.jobs.requests import CompactRequest
from odfabric.model.metadata import SetInfo
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.rewrite import RewriteKind
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.transfer.smart_parties import SmartParties

RESET = RewriteKind.RESET.value
ABSENT = sha3_256_multihash(bytes(32))


class Liar(SmartParties):
    """`ours` has the key and the right to push, and signs what it likes.

    `theirs` has the chain.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for day in (1, 2, 3):
            self.ingest(day)
        assert self.smart_push()["blocks"] > 0
        rows = list(self.ours.node.repository.rows_down(self.entry.id))
        self.chain = [row.hash for row in rows][::-1]

    def log(self, moves: Iterable[tuple[str, Multihash]]) -> list[SignedMove]:
        """A log, well signed, of moves to these heads."""
        node, found, end = self.ours.node, list[SignedMove](), LogEnd(self.entry.id)
        entry = node.datasets.resolve(self.entry.id)
        assert entry.sealed_key is not None
        for kind, head in moves:
            last = end.last
            move = HeadMove(
                sequence=end.sequence,
                kind=kind,
                old_head=None if last is None else last.move.new_head,
                new_head=head,
                system_time=node.ports.clock.now().truncated_to_millis(),
                previous=None if last is None else last.hash,
                signer=end.signer,
            )
            signed = signed_move(move, node.ports.keys.sign(entry.id, entry.sealed_key, entry_to_sign(entry.id, move)))
            end = LogEnd(entry.id, signed)
            found.append(signed)
        return found

    def send(self, log: list[SignedMove], *, path: str = HEAD_LOG) -> None:
        self.theirs.node.heads.accept(self.copy, path, segment_text([each.line for each in log]))

    def sign(self, log: list[SignedMove]) -> None:
        """Push the signature of the log's end."""
        entry, last = self.ours.node.datasets.resolve(self.entry.id), log[-1]
        assert entry.sealed_key is not None
        said = HeadStatement(
            sequence=last.move.sequence,
            head=last.move.new_head,
            log=last.hash,
            signed_at=last.move.system_time,
            signer=last.move.next_key,
        )
        signature = self.ours.node.ports.keys.sign(entry.id, entry.sealed_key, statement_to_sign(entry.id, said))
        self.theirs.node.heads.accept(self.copy, HEAD_SIGNATURE, signed_statement(said, signature).line + b"\n")

    def kept(self) -> int:
        return len(self.theirs.node.ports.head_logs.lines(self.entry.id, first=0, limit=10_000))


@pytest.fixture
def liar(tmp_path: Path) -> Liar:
    return Liar(tmp_path)


def test_a_log_of_what_happened_is_taken(liar: Liar) -> None:
    log = liar.log([(CREATED, liar.chain[0]), *((APPENDED, head) for head in liar.chain[1:])])
    liar.send(log)
    liar.sign(log)
    assert liar.kept() == len(liar.chain)
    assert liar.theirs.node.heads.described(liar.copy).entries == len(log)


def test_a_recorded_reset_may_go_back(liar: Liar) -> None:
    first, *_, newest = liar.chain
    liar.send(liar.log([(CREATED, first), (APPENDED, newest), (RESET, first), (APPENDED, newest)]))
    assert liar.kept() == 4


def test_blocks_before_a_recorded_rewrite_may_be_gone(liar: Liar) -> None:
    liar.send(liar.log([(CREATED, liar.chain[0]), (APPENDED, ABSENT), (REPLACED, liar.chain[-1])]))
    assert liar.kept() == 3


@pytest.mark.parametrize(
    ("at", "words"),
    [("back", "older block without saying so"), ("absent", "not in the chain"), ("end", "a block that is not here")],
)
def test_a_log_that_contradicts_the_chain_is_refused(liar: Liar, at: str, words: str) -> None:
    first, second, *_, newest = liar.chain
    heads = {
        "back": [first, newest, second, newest],
        "absent": [first, ABSENT, newest],
        "end": [first, newest, ABSENT],
    }[at]
    with pytest.raises(CorruptedSource, match=words):
        liar.send(liar.log([(CREATED, heads[0]), *((APPENDED, each) for each in heads[1:])]))
    assert liar.kept() == 0


def test_what_a_new_entry_says_is_held_against_the_one_that_is_kept(liar: Liar) -> None:
    first, second, *_, newest = liar.chain
    log = liar.log([(CREATED, first), (APPENDED, newest), (APPENDED, second)])
    liar.send(log[:2])
    with pytest.raises(CorruptedSource, match="older block"):
        liar.send(log)
    assert liar.kept() == 2


class TestSegments:
    """What a full segment leaves open is judged with the entries after it."""

    def moves(self, liar: Liar, kind: str) -> list[SignedMove]:
        gone = [(APPENDED, ABSENT)] * (SEGMENT_ENTRIES - 1)
        return liar.log([(CREATED, liar.chain[0]), *gone, (kind, liar.chain[-1])])

    def test_a_later_rewrite_explains_what_is_gone(self, liar: Liar) -> None:
        log = self.moves(liar, REPLACED)
        liar.send(log[:SEGMENT_ENTRIES], path=f"{HEAD_LOG}.0")
        liar.send(log[SEGMENT_ENTRIES:])
        liar.sign(log)
        assert liar.kept() == len(log)

    def test_without_one_nothing_is_signed(self, liar: Liar) -> None:
        log = self.moves(liar, APPENDED)
        liar.send(log[:SEGMENT_ENTRIES], path=f"{HEAD_LOG}.0")
        with pytest.raises(CorruptedSource, match="not in the chain"):
            liar.send(log[SEGMENT_ENTRIES:])
        with pytest.raises(CorruptedSource, match="not in the chain"):
            liar.sign(log[:SEGMENT_ENTRIES])

    def test_a_part_of_a_segment_cannot_pass_for_a_full_one(self, liar: Liar) -> None:
        log = self.moves(liar, APPENDED)
        for path, sent in ((".0", log[:9]), (".1", log[:SEGMENT_ENTRIES])):
            with pytest.raises(CorruptedSource, match="segment"):
                liar.send(sent, path=HEAD_LOG + path)
        for path in ("x", ".", ".-1", ".\u0661", ".0.0", "." + "9" * 13):
            with pytest.raises(InvalidRequest):
                liar.send(log[:SEGMENT_ENTRIES], path=HEAD_LOG + path)
        assert liar.kept() == 0


def test_what_was_pushed_here_with_its_log_goes_on_where_its_key_is(liar: Liar) -> None:
    log = liar.log([(CREATED, liar.chain[0]), *((APPENDED, head) for head in liar.chain[1:])])
    liar.send(log)
    liar.sign(log)
    there, copy = liar.theirs.node, liar.theirs.node.datasets.resolve(liar.entry.id)
    before = there.datasets.head(copy)
    for act in (
        lambda: there.history.compact(copy, CompactRequest(dataset=copy.id)),
        lambda: there.history.set_watermark(copy, Instant.parse("2030-01-01T00:00:00Z"), force=True),
        lambda: there.history.reset(copy, liar.chain[-2], expected=before.hash),
        lambda: there.requests.push(PushData(dataset=copy.id, body=iter([b""]))),
        lambda: there.editing.set_info(copy, [SetInfo(description="ours")], there.operator),
    ):
        with pytest.raises(InvalidRequest, match=r"the key that signs .* is not on this node") as refused:
            act()
        assert "odf key import" in str(refused.value.hint)
    assert there.datasets.head(copy) == before


def test_what_was_pushed_here_without_a_log_may_go_on_here(liar: Liar) -> None:
    there, copy = liar.theirs.node, liar.theirs.node.datasets.resolve(liar.entry.id)
    there.history.set_watermark(copy, Instant.parse("2030-01-01T00:00:00Z"), force=True)
    assert there.datasets.head(copy).hash != liar.chain[-1]

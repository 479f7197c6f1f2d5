"""Evil head logs: foreign keys, gaps, clocks, parts of other datasets.

A stranger who verifies names each, and a pull takes none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.formats.heads.head_log import (
    entry_to_sign,
    segment_text,
    signed_move,
    signed_statement,
    statement_to_sign,
)
from odfabric.formats.identifiers.dataset_layout import HEAD, HEAD_LOG, HEAD_SIGNATURE
from odfabric.model.heads.head_log import APPENDED, CREATED, HANDED_OVER, HeadMove, HeadStatement, SignedMove
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.multihash import Multihash
from tests.usecases.transfer.sharing import PLACE, Parties
from tests.usecases.transfer.test_signed_heads import kept, lay, rule_of

DAY_NS = 86_400 * NANOS_PER_SECOND
FOREIGN = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
FOREIGN_PUBLIC = FOREIGN.public_key().public_bytes_raw()

Sign = Callable[[bytes], bytes]


@dataclass
class Forge:
    """Writes logs of `parties.ours`, with its key or a foreign one."""

    parties: Parties

    @property
    def chain(self) -> list[Multihash]:
        rows = list(self.parties.ours.node.repository.rows_down(self.parties.entry.id))
        return [row.hash for row in rows][::-1]

    def own(self, data: bytes) -> bytes:
        node = self.parties.ours.node
        entry = node.datasets.resolve(self.parties.entry.id)
        assert entry.sealed_key is not None
        return node.ports.keys.sign(entry.id, entry.sealed_key, data)

    @property
    def now(self) -> Instant:
        return self.parties.theirs.clock.now().truncated_to_millis()

    def moves(self, *heads: Multihash) -> list[HeadMove]:
        """An honest log of moves to these heads, not linked yet."""
        key = self.parties.entry.id.key
        return [
            HeadMove(
                sequence=number,
                kind=APPENDED if number else CREATED,
                old_head=heads[number - 1] if number else None,
                new_head=head,
                system_time=self.now,
                previous=None,
                signer=key,
            )
            for number, head in enumerate(heads)
        ]

    def signed(self, moves: list[HeadMove], sign: Callable[[HeadMove], Sign] | None = None) -> list[SignedMove]:
        """Link the moves and sign each."""
        dataset, found = self.parties.entry.id, list[SignedMove]()
        for each in moves:
            linked = replace(each, previous=found[-1].hash if found else None)
            by = self.own if sign is None else sign(linked)
            found.append(signed_move(linked, by(entry_to_sign(dataset, linked))))
        return found

    def publish(self, log: list[SignedMove], *, sign: Sign | None = None, **changed: Any) -> None:
        """Lay the log on the shelf with a signature of its end."""
        last, dataset = log[-1], self.parties.entry.id
        said = HeadStatement(
            sequence=last.move.sequence,
            head=last.move.new_head,
            log=last.hash,
            signed_at=self.now,
            signer=last.move.next_key,
        )
        said = replace(said, **changed)
        line = signed_statement(said, (sign or self.own)(statement_to_sign(dataset, said))).line
        self.parties.shelf.write_ref(HEAD_LOG, segment_text([each.line for each in log]).decode())
        self.parties.shelf.write_ref(HEAD_SIGNATURE, line.decode() + "\n")


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    parties = Parties(tmp_path)
    parties.ingest(1)
    parties.ingest(2)
    parties.push()
    return Forge(parties)


def refused_by(forge: Forge) -> str:
    """The rule by which a verification and a pull refuse; both leave nothing."""
    found = forge.parties.pull()
    assert found.get("code") == "corrupted-source", found
    assert forge.parties.theirs.node.datasets.page(after=None, limit=10) == []
    rule = rule_of(forge.parties)
    assert found.get("rule", rule) == rule
    return rule


def test_an_honest_log_is_taken(forge: Forge) -> None:
    forge.publish(forge.signed(forge.moves(forge.chain[0], forge.chain[-1])))
    assert rule_of(forge.parties) == ""
    assert forge.parties.pull()["rows"] == 2


def test_a_log_signed_by_a_foreign_key(forge: Forge) -> None:
    moves = [replace(each, signer=FOREIGN_PUBLIC) for each in forge.moves(forge.chain[0], forge.chain[-1])]
    forge.publish(forge.signed(moves, lambda _: FOREIGN.sign), sign=FOREIGN.sign)
    assert refused_by(forge) == "head-log-signer"


def test_a_foreign_signature_in_the_name_of_the_key(forge: Forge) -> None:
    forge.publish(forge.signed(forge.moves(forge.chain[-1]), lambda _: FOREIGN.sign))
    assert refused_by(forge) == "head-log-tampered"


def test_an_end_signed_by_a_foreign_key(forge: Forge) -> None:
    log = forge.signed(forge.moves(forge.chain[-1]))
    forge.publish(log, sign=FOREIGN.sign, signer=FOREIGN_PUBLIC)
    assert refused_by(forge) == "head-log-signer"


@pytest.mark.parametrize("numbers", [(0, 0), (0, 2), (1, 2), (0, 2**53 - 1)], ids=["equal", "gap", "late", "huge"])
def test_numbers_that_are_equal_or_have_gaps(forge: Forge, numbers: tuple[int, int]) -> None:
    moves = forge.moves(forge.chain[0], forge.chain[-1])
    forge.publish(forge.signed([replace(each, sequence=number) for each, number in zip(moves, numbers, strict=True)]))
    assert refused_by(forge) == "head-log-tampered"


@pytest.mark.parametrize("days", [1, 365_000], ids=["a day", "a thousand years"])
def test_a_clock_that_is_ahead(forge: Forge, days: int) -> None:
    """It would count as fresh until then, however old the place is."""
    ahead = Instant(forge.now.epoch_ns + days * DAY_NS) if days < 10_000 else Instant.parse("2200-01-01T00:00:00Z")
    moves = [replace(each, system_time=ahead) for each in forge.moves(forge.chain[-1])]
    forge.publish(forge.signed(moves))
    assert refused_by(forge) == "head-log-tampered"
    forge.publish(forge.signed(forge.moves(forge.chain[-1])), signed_at=ahead)
    assert refused_by(forge) == "head-log-tampered"


def test_a_clock_that_goes_back(forge: Forge) -> None:
    first, second = forge.moves(forge.chain[0], forge.chain[-1])
    past = Instant.parse("1970-01-01T00:00:00Z")
    forge.publish(forge.signed([first, replace(second, system_time=past)]))
    assert refused_by(forge) == "head-log-tampered"


def test_a_clock_far_behind_is_an_old_signature(forge: Forge) -> None:
    node = forge.parties.theirs
    node.settings = node.settings.model_copy(update={"head_age_s_max": 3600.0})
    node.restart()
    node.remote_stores.share(PLACE, forge.parties.shelf)
    past = Instant.parse("1970-01-01T00:00:00Z")
    moves = [replace(each, system_time=past) for each in forge.moves(forge.chain[-1])]
    forge.publish(forge.signed(moves), signed_at=past)
    assert refused_by(forge) == "head-log-freeze"


def test_a_log_whose_last_entry_is_not_the_head(forge: Forge) -> None:
    forge.publish(forge.signed(forge.moves(*forge.chain[:-1])))
    assert refused_by(forge) == "head-unsigned"


def test_a_head_that_the_log_signed_and_nobody_has(forge: Forge) -> None:
    """The newest signed head counts, and its blocks are not there."""
    nowhere = replace(forge.chain[-1], digest=bytes(32))
    forge.publish(forge.signed(forge.moves(*forge.chain, nowhere)))
    found = forge.parties.pull()
    assert (found["code"], str(nowhere) in found["message"]) == ("corrupted-source", True)


def test_a_hand_over_that_the_old_key_has_not_signed(forge: Forge) -> None:
    first, over = forge.moves(forge.chain[-1], forge.chain[-1])
    over = replace(over, kind=HANDED_OVER, next_signer=FOREIGN_PUBLIC)

    def sign(move: HeadMove) -> Sign:
        return FOREIGN.sign if move.kind == HANDED_OVER else forge.own

    forge.publish(forge.signed([first, over], sign), sign=FOREIGN.sign)
    assert refused_by(forge) == "head-log-tampered"
    forge.publish(forge.signed([first, replace(over, signer=FOREIGN_PUBLIC)], sign), sign=FOREIGN.sign)
    assert refused_by(forge) == "head-log-signer"


def test_an_entry_by_the_key_that_was_handed_over(forge: Forge) -> None:
    first, over, late = forge.moves(forge.chain[0], forge.chain[0], forge.chain[-1])
    over = replace(over, kind=HANDED_OVER, next_signer=FOREIGN_PUBLIC)
    forge.publish(forge.signed([first, over, late]))
    assert refused_by(forge) == "head-log-signer"


class TestMixedDatasets:
    """Files of another dataset, all of them genuine, in the place of ours."""

    @pytest.fixture
    def other(self, tmp_path: Path, forge: Forge) -> Mapping[str, bytes]:
        del forge
        parties = Parties(tmp_path / "other", seed=7)
        parties.ingest(3)
        parties.push()
        return kept(parties.shelf)

    @pytest.mark.parametrize(
        "taken",
        [(HEAD,), (HEAD_LOG,), (HEAD_SIGNATURE,), (HEAD_LOG, HEAD_SIGNATURE), (HEAD, HEAD_SIGNATURE), (HEAD, HEAD_LOG)],
        ids=lambda taken: " and ".join(each.removeprefix("refs/") for each in taken),
    )
    def test_parts_of_the_head(self, forge: Forge, other: Mapping[str, bytes], taken: tuple[str, ...]) -> None:
        files = kept(forge.parties.shelf)
        lay(forge.parties.shelf, {**files, **{path: other[path] for path in taken}})
        assert refused_by(forge) in ("corrupted-source", "head-log-tampered", "head-log-signer")

    @pytest.mark.parametrize("area", ["blocks", "data"])
    def test_its_bytes_under_our_names(self, forge: Forge, other: Mapping[str, bytes], area: str) -> None:
        files = kept(forge.parties.shelf)
        ours, theirs = ([path for path in each if path.startswith(f"{area}/")] for each in (files, other))
        for path in ours:
            lay(forge.parties.shelf, {**files, path: other[theirs[-1]]})
            assert refused_by(forge) == "corrupted-source"

    def test_all_of_it_under_our_name(self, forge: Forge, other: Mapping[str, bytes]) -> None:
        """It is another dataset; a copy does not become it, no matter who signs it."""
        assert forge.parties.pull()["rows"] == 2
        lay(forge.parties.shelf, dict(other))
        found = forge.parties.pull(force=True)
        assert (found["code"], "id or kind is restricted" in found["message"]) == ("invalid-request", True)


def test_endless_entries_are_not_read(forge: Forge) -> None:
    node = forge.parties.theirs
    node.settings = node.settings.model_copy(update={"head_log_entries_max": 200})
    node.restart()
    node.remote_stores.share(PLACE, forge.parties.shelf)
    asked: list[str] = []
    moves = [replace(each, sequence=2**40 + number) for number, each in enumerate(forge.moves(forge.chain[-1]))]
    forge.publish(forge.signed(moves))

    class Noting(dict[str, bytes]):
        def get(self, path: str, default: Any = None) -> Any:
            asked.append(path)
            return super().get(path, default)

    node.remotes.publish(PLACE, Noting(kept(forge.parties.shelf)))
    found = forge.parties.pull()
    assert found["code"] in ("limit-exceeded", "corrupted-source"), found
    assert len(asked) < 20

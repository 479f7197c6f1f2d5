"""Bytes of signed heads: vectors, and that no byte may change."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import CorruptedSource, InvalidRequest
from odfabric.formats.heads.head_log import (
    entry_to_sign,
    line_hash,
    read_move,
    read_statement,
    segment_lines,
    segment_text,
    signed_move,
    signed_statement,
    statement_to_sign,
)
from odfabric.formats.heads.key_document import read_key_document, write_key_document
from odfabric.model.heads.head_log import APPENDED, CREATED, HANDED_OVER, SEGMENT_ENTRIES, HeadMove, HeadStatement
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash, sha3_256_multihash

PRIVATE = bytes(range(32))
KEY = Ed25519PrivateKey.from_private_bytes(PRIVATE)
PUBLIC = KEY.public_key().public_bytes_raw()
DATASET = DatasetId(PUBLIC)
OTHER = DatasetId(Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw())
AT = Instant.parse("2026-03-02T09:10:00.123Z")


def block(number: int) -> Multihash:
    return sha3_256_multihash(number.to_bytes(32, "big"))


MOVE = HeadMove(
    sequence=0, kind=CREATED, old_head=None, new_head=block(1), system_time=AT, previous=None, signer=PUBLIC
)
LINE = (
    '{"kind":"created","newHead":"f1620' + "0" * 63 + '1","oldHead":null,"previous":null,"sequence":0,'
    '"signature":"@SIGNATURE@","signer":"did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd",'
    '"systemTime":"2026-03-02T09:10:00.123Z"}'
)


def signed(move: HeadMove, dataset: DatasetId = DATASET) -> bytes:
    return signed_move(move, KEY.sign(entry_to_sign(dataset, move))).line


def test_the_first_entry_of_a_dataset() -> None:
    base = entry_to_sign(DATASET, MOVE)
    assert base.startswith(b"odfabric head log 1\n" + str(DATASET).encode() + b'\n{"kind":"created",')
    line = signed(MOVE).decode()
    signature = line.partition('"signature":"')[2].partition('"')[0]
    assert line == LINE.replace("@SIGNATURE@", signature)
    assert signature == SIGNATURE
    assert str(line_hash(line.encode())) == ENTRY_HASH
    assert read_move(DATASET, line.encode()).move == MOVE


SIGNATURE = "o6rrkVythFs0u-E6oGXcqyrRzrfrqbwnfnLTi3VrNH2RY5nmrNDD3XUBGwvj7LYVkWOmmOY_ouXHELG1ZsmYCw=="
ENTRY_HASH = "f16203630a727294d07d260c357282406de3516d64b6d8ecc14e5e8f6fff0370255fe"

times = st.integers(min_value=0, max_value=4_000_000_000_000).map(Instant.from_millis)
hashes = st.binary(min_size=32, max_size=32).map(sha3_256_multihash)


@st.composite
def moves(draw: st.DrawFn) -> HeadMove:
    kind = draw(st.sampled_from([APPENDED, CREATED, HANDED_OVER, "reset", "another-kind"]))
    return HeadMove(
        sequence=draw(st.integers(min_value=0, max_value=2**53 - 1)),
        kind=kind,
        old_head=draw(st.none() | hashes),
        new_head=draw(hashes),
        system_time=draw(times),
        previous=draw(st.none() | hashes),
        signer=PUBLIC,
        next_signer=draw(st.binary(min_size=32, max_size=32)) if kind == HANDED_OVER else None,
    )


@given(moves())
def test_what_is_written_is_read(move: HeadMove) -> None:
    line = signed(move)
    assert read_move(DATASET, line).move == move
    with pytest.raises(CorruptedSource):
        read_move(OTHER, line)


@given(moves(), st.data())
def test_any_changed_byte_is_found(move: HeadMove, data: st.DataObject) -> None:
    line = bytearray(signed(move))
    at = data.draw(st.integers(0, len(line) - 1))
    change = data.draw(st.integers(1, 255))
    line[at] ^= change
    with pytest.raises(CorruptedSource) as refused:
        read_move(DATASET, bytes(line))
    assert refused.value.place.rule == "head-log-tampered"


@given(st.binary(max_size=1200) | st.text(max_size=400).map(str.encode))
def test_anything_else_is_refused(line: bytes) -> None:
    for read in (read_move, read_statement):
        with pytest.raises(CorruptedSource):
            read(DATASET, line)


@given(hashes, hashes, times, st.integers(0, 10_000), st.data())
def test_statements(head: Multihash, log: Multihash, at: Instant, sequence: int, data: st.DataObject) -> None:
    statement = HeadStatement(sequence=sequence, head=head, log=log, signed_at=at, signer=PUBLIC)
    line = signed_statement(statement, KEY.sign(statement_to_sign(DATASET, statement))).line
    assert read_statement(DATASET, line).statement == statement
    changed = bytearray(line)
    changed[data.draw(st.integers(0, len(line) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptedSource):
        read_statement(DATASET, bytes(changed))


def test_an_entry_does_not_pass_for_a_statement() -> None:
    """The domains differ, so a signature of one is none of the other."""
    statement = HeadStatement(sequence=0, head=block(1), log=block(2), signed_at=AT, signer=PUBLIC)
    assert entry_to_sign(DATASET, MOVE).split(b"\n")[0] != statement_to_sign(DATASET, statement).split(b"\n")[0]


def test_segments() -> None:
    lines = [b"one", b"two"]
    assert segment_lines(segment_text(lines)) == lines
    for wrong in (b"", b"one", b"one\ntwo", b"x\n" * (SEGMENT_ENTRIES + 1)):
        with pytest.raises(CorruptedSource):
            segment_lines(wrong)


class TestKeyDocument:
    def written(self, passphrase: str | None) -> bytes:
        return write_key_document(
            DATASET, PRIVATE, signer="did:key:x", passphrase=passphrase, salt=bytes(16), nonce=bytes(12)
        )

    def test_sealed(self) -> None:
        document = self.written("correct horse")
        assert read_key_document(DATASET, document, passphrase="correct horse") == PRIVATE
        for dataset, passphrase in ((DATASET, "wrong horse"), (DATASET, None), (OTHER, "correct horse")):
            with pytest.raises(InvalidRequest):
                read_key_document(dataset, document, passphrase=passphrase)

    def test_plain(self) -> None:
        assert read_key_document(DATASET, self.written(None), passphrase=None) == PRIVATE

    def test_short_passphrases_and_other_files_are_refused(self) -> None:
        with pytest.raises(InvalidRequest):
            self.written("short")
        for wrong in (b"", b"{}", b"x" * 9000, b'{"format":"odfabric dataset key 1"}'):
            with pytest.raises(InvalidRequest):
                read_key_document(DATASET, wrong, passphrase=None)

"""Verify the head log and the engine records that are kept beside a chain.

Invariant: entries are believed from the first one on, as a stranger would judge them elsewhere; a signature counts only by a key that the
log names. A dataset that nobody signed has no such problem. Source: ADR 0072, 0080.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.verify import ProblemKind
from odfabric.domain.heads.head_history import FORK, LogEnd, check_lineage, check_moves, last_blocks_of_former_keys
from odfabric.errors import Corrupt, CorruptedSource, OdfError
from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.heads.head_log import SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.head_writer import stored_move
from odfabric.usecases.history.rewritten_inputs import InputHistories
from odfabric.usecases.transform.engine_records import signed_engine_records
from odfabric.usecases.verification.verification_run import CheckedHeads, Verification

ENTRIES_PAGE = 1000
RECORDS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogs:
    """Logs as this node keeps them; `entries_max` of one are read."""

    logs: HeadLogs
    entries_max: int

    def histories(self, repository: Repository) -> InputHistories:
        """What became of the histories of inputs."""
        return InputHistories(repository=repository, seen=repository, logs=self.logs, entries_max=self.entries_max)


def verify_heads(verification: Verification, hashes: Sequence[Multihash], stored: StoredLogs) -> CheckedHeads | None:
    """Judge the stored head log of a dataset, and who signed its engine records.

    `hashes` is the verified chain, oldest first. None for a dataset that nobody has signed.
    """
    moves: list[SignedMove] = []
    try:
        moves = list(_judged(verification.dataset, stored))
        if moves:
            check_lineage(moves, _numbers(verification, hashes))
            _check_seen(verification.dataset, moves, stored.logs)
    except (CorruptedSource, Corrupt) as error:
        rule = f"{error.place.rule}: " if isinstance(error, CorruptedSource) and error.place.rule else ""
        verification.found(ProblemKind.HEAD_LOG_INVALID, f"{rule}{error.message}")
    keys = {verification.dataset.key, *(each.move.next_key for each in moves)}
    numbers = _numbers(verification, hashes)
    signed, unsigned = _verify_records(verification, keys, last_blocks_of_former_keys(moves, numbers), numbers)
    if not moves:
        return None
    newest = moves[-1].move
    if verification.repository.head(verification.dataset).hash != newest.new_head and verification.entry.is_copy:
        verification.skipped.append(
            f"head-unsigned: the newest signed head is {newest.new_head}; nobody signed the blocks after it"
        )
    return CheckedHeads(
        signer=shown_key(newest.next_key), entries=len(moves), records_signed=signed, records_unsigned=unsigned
    )


def _judged(dataset: DatasetId, stored: StoredLogs) -> Iterator[SignedMove]:
    """The entries, each after the one before it. Raises CorruptedSource, Corrupt."""
    end = LogEnd(dataset)
    for first in range(0, stored.entries_max, ENTRIES_PAGE):
        lines = stored.logs.lines(dataset, first=first, limit=ENTRIES_PAGE)
        for line in lines:
            move = stored_move(dataset, line)
            end = check_moves(end, [move])
            yield move
        if len(lines) < ENTRIES_PAGE:
            return


def _numbers(verification: Verification, hashes: Sequence[Multihash]) -> Callable[[Multihash], int | None]:
    """Sequence numbers by the chain that was verified; later blocks by its rows."""
    verified = {name: number for number, name in enumerate(hashes)}

    def number_of(block: Multihash) -> int | None:
        if block in verified:
            return verified[block]
        row = verification.repository.chains.row(verification.dataset, block)
        return None if row is None else row.sequence_number

    return number_of


def _check_seen(dataset: DatasetId, moves: Sequence[SignedMove], logs: HeadLogs) -> None:
    """Compare with what was seen elsewhere.

    Raises CorruptedSource for another history of the key."""
    seen = logs.seen(dataset)
    if seen is not None and seen.sequence < len(moves) and moves[seen.sequence].hash != seen.log:
        raise CorruptedSource(
            f"{FORK}: entry {seen.sequence} of the head log here is another one than the one that was seen at "
            f"{seen.place} on {seen.seen_at}"
        )


def _verify_records(
    verification: Verification,
    keys: set[bytes],
    last_blocks: Mapping[bytes, int],
    number_of: Callable[[Multihash], int | None],
) -> tuple[int, int]:
    """Check who signed the engine records; how many are signed, and how many not.

    `last_blocks` bounds what keys that were handed over may have signed.
    """
    signed = unsigned = 0
    records = signed_engine_records(verification.dataset, objects=verification.repository.objects)
    for _ in range(RECORDS_MAX):
        try:
            record, signer = next(records)
        except StopIteration:
            break
        except Corrupt as error:
            verification.found(ProblemKind.ENGINE_RECORD_INVALID, f"{error.message}: {error.object_name}")
            break
        if signer is None:
            unsigned += 1
        elif signer in keys:
            block = _block_of(record.get("block"))
            number = None if block is None else number_of(block)
            if number is not None and number > last_blocks.get(signer, number):
                verification.found(
                    ProblemKind.ENGINE_RECORD_INVALID,
                    f"what is recorded of an engine is signed by {shown_key(signer)}, which was handed over before "
                    f"block {number} was there: somebody else may have that key",
                    block=block,
                )
            else:
                signed += 1
        else:
            verification.found(
                ProblemKind.ENGINE_RECORD_INVALID,
                f"what is recorded of an engine is signed by {shown_key(signer)}, which never signed for the dataset",
                block=_block_of(record.get("block")),
            )
    return signed, unsigned


def _block_of(text: object) -> Multihash | None:
    try:
        return parse_multihash(str(text))
    except OdfError:
        return None

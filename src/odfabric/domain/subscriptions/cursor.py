"""Where a cursor begins, the text of its positions, and their order.

Owns the rules of positions. Invariant: a position names the block that it builds on, so that one of another chain is never taken for
one of this. Not here: rows (`usecases.reading.read_changes`), who may move a cursor (`ports.subscriptions.cursors`).
"""

from __future__ import annotations

import hashlib
import re

from odfabric.errors import InvalidName, InvalidRequest, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.cursor import CursorMode, CursorPosition

CONSUMER_CHARACTERS_MAX = 100
POSITION_CHARACTERS_MAX = 200

_CONSUMER = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{CONSUMER_CHARACTERS_MAX - 1}}}", re.ASCII)
_POSITION = re.compile(
    r"(?P<mode>baseline|listen)\.(?P<sequence>[1-9][0-9]{0,18})\.(?P<row>0|[1-9][0-9]{0,18})\.(?P<epoch>f[0-9a-f]+)",
    re.ASCII,
)
_NUMBER_MAX = 2**63 - 1


def check_consumer(name: str) -> str:
    """The name of a consumer. Raises InvalidName."""
    if _CONSUMER.fullmatch(name) is None:
        raise InvalidName(
            f"not the name of a consumer: {name[:CONSUMER_CHARACTERS_MAX]!r}",
            hint=f"1 to {CONSUMER_CHARACTERS_MAX} letters, digits, dots, hyphens and underscores",
        )
    return name


def parse_position(text: str) -> CursorPosition:
    """From the text that a fetch reported. Raises InvalidRequest."""
    match = _POSITION.fullmatch(text[: POSITION_CHARACTERS_MAX + 1])
    try:
        if match is None or max(int(match["sequence"]), int(match["row"])) > _NUMBER_MAX:
            raise InvalidName(f"not a position: {text[:POSITION_CHARACTERS_MAX]!r}")
        epoch = parse_multihash(match["epoch"])
    except InvalidName as error:
        raise InvalidRequest(
            error.message, place=Place(field="position"), hint="send a position as a fetch told it"
        ) from None
    return CursorPosition(
        mode=CursorMode(match["mode"]),
        next_sequence=int(match["sequence"]),
        next_row=int(match["row"]),
        epoch=epoch,
    )


def baseline_at(block: Multihash, sequence_number: int) -> CursorPosition:
    """The first row of the net state after a block."""
    return CursorPosition(mode=CursorMode.BASELINE, next_sequence=sequence_number + 1, next_row=0, epoch=block)


def changes_after(block: Multihash, sequence_number: int) -> CursorPosition:
    """The first change after a block."""
    return CursorPosition(mode=CursorMode.LISTEN, next_sequence=sequence_number + 1, next_row=0, epoch=block)


def event_id(dataset: DatasetId, position: CursorPosition, after: CursorPosition) -> str:
    """Identity of what is between two positions. The same at each delivery.

    SHA3-256 of the texts, in hexadecimal.
    """
    return hashlib.sha3_256(f"{dataset} {position} {after}".encode()).hexdigest()

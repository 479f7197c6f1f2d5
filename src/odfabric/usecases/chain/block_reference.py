"""The block of a dataset's present chain that somebody names by hash or number."""

from __future__ import annotations

from odfabric.errors import InvalidName, NotFound
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.repository import Repository

NUMBER_DIGITS_MAX = 12
SHOWN_CHARACTERS_MAX = 100


def named_block(entry: CatalogEntry, named: Multihash | int, *, repository: Repository) -> BlockRow:
    """The block with a hash or a sequence number.

    Raises NotFound, for a number naming those that there are.
    """
    if isinstance(named, int):
        found = next(iter(repository.chains.rows_down(entry.id, from_sequence=named)), None)
        row = found if found is not None and found.sequence_number == named else None
    else:
        row = repository.chains.row(entry.id, named)
    if row is not None:
        return row
    if isinstance(named, int):
        head = repository.head(entry.id).sequence_number
        hint = f"the blocks of {entry.alias} are numbered 0 to {head}: `odf log {entry.alias}` lists them"
        raise NotFound("block", f"number {named}", hint=hint)
    raise no_block(entry, named)


def no_block(entry: CatalogEntry, block: Multihash) -> NotFound:
    """The refusal of a hash that is not in the chain."""
    return NotFound(
        "block",
        str(block),
        hint=f"it is not in the chain of {entry.alias}, or no longer, if history was rewritten: "
        f"`odf log {entry.alias}` lists its blocks",
    )


def parse_block(text: str) -> Multihash | int:
    """A hash, or a sequence number in digits with or without `#`. Raises InvalidName."""
    digits = text.removeprefix("#")
    if digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX:
        return int(digits)
    try:
        return parse_multihash(text)
    except InvalidName:
        raise InvalidName(
            f"{text[:SHOWN_CHARACTERS_MAX]!r} is neither the number nor the whole hash of a block",
            hint="`odf log` shows both: write 12 or f1620..",
        ) from None

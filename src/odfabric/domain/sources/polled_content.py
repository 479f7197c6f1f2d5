"""What a block says of its polled file.

Its content's hash, and of a folder's file also name, size and time.

Owns the attribute of AddData beside the source state, which only holds what every ODF node reads: an entity tag, a date, a file's name. The
attribute lets a node see that a server without validators sent the same bytes again, and that a file of a folder was replaced. Invariant: the
attribute of anybody's block is read or passed over, never an error; a chain without it works as it did before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.domain.chain.state import ChainState
from odfabric.errors import InvalidName
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash

ATTRIBUTE = "odfabric.dev/polled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledContent:
    """One polled file as it was fetched, before it was unpacked.

    `size` is in bytes; only files of folders have all members.
    """

    content: Multihash
    name: str | None = None
    size: int | None = None
    modified_at: Instant | None = None


def polled_attributes(polled: PolledContent | None) -> dict[str, object]:
    """The attributes of a block that took this content; none without."""
    if polled is None:
        return {}
    members = {
        "content": str(polled.content),
        "name": polled.name,
        "size": polled.size,
        "modifiedAt": None if polled.modified_at is None else str(polled.modified_at),
    }
    return {ATTRIBUTE: {member: value for member, value in members.items() if value is not None}}


def polled_content(extra: ExtraAttributes | None) -> PolledContent | None:
    """What the attributes of a block say.

    None where they are absent or of another form.
    """
    match attributes_of(extra).get(ATTRIBUTE):
        case {"content": str(content), **others}:
            return _parsed(content, others)
        case _:
            return None


def last_content(state: ChainState) -> Multihash | None:
    """The hash of the content taken last, if the source is unchanged since."""
    taken, source = state.add_data, state.polling_source
    if taken is None or (source is not None and source.sequence_number > taken.sequence_number):
        return None
    found = polled_content(taken.event.extra)
    return None if found is None else found.content


def _parsed(content: str, others: Mapping[object, object]) -> PolledContent | None:
    name, size, modified_at = others.get("name"), others.get("size"), others.get("modifiedAt")
    try:
        return PolledContent(
            content=parse_multihash(content),
            name=name if isinstance(name, str) else None,
            size=size if isinstance(size, int) and not isinstance(size, bool) else None,
            modified_at=Instant.parse(modified_at) if isinstance(modified_at, str) else None,
        )
    except (InvalidName, ValueError):
        return None

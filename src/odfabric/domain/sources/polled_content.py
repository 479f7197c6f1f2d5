"""What a block says of its polled file.

Its content's hash, and of a folder's file also name, size and time.

Owns the attribute of AddData beside the source state, which only holds what every ODF node reads: an entity tag, a date, a file's name. The
attribute lets a node see that a server without validators sent the same bytes again, and that a file of a folder was replaced. Invariant: the
attribute of anybody's block is read or passed over, never an error; a chain without it works as it did before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.domain.chain.state import ChainState
from odfabric.domain.sources.polling import ETAG, value_of
from odfabric.errors import InvalidName
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, MetadataBlock
from odfabric.model.multihash import Multihash

ATTRIBUTE = "odfabric.dev/polled"
POLLED_BEFORE = "odfabric.dev/polled-before"
"""Of a block that compaction made: files of the blocks that it took the place of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledContent:
    """One polled file as it was fetched, before it was unpacked.

    `size` is in bytes; only files of folders have all members.
    """

    content: Multihash
    name: str | None = None
    size: int | None = None
    modified_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class PolledFile:
    """A file of a folder and when it was read; `content` may be unknown (None)."""

    name: str
    read_at: Instant
    content: PolledContent | None


def polled_attributes(polled: PolledContent | None) -> dict[str, object]:
    """The attributes of a block that took this content; none without."""
    if polled is None:
        return {}
    return {ATTRIBUTE: _members(polled)}


def _members(polled: PolledContent | None) -> dict[str, object]:
    if polled is None:
        return {}
    members = {
        "content": str(polled.content),
        "name": polled.name,
        "size": polled.size,
        "modifiedAt": None if polled.modified_at is None else str(polled.modified_at),
    }
    return {member: value for member, value in members.items() if value is not None}


def polled_content(extra: ExtraAttributes | None) -> PolledContent | None:
    """What the attributes of a block say.

    None where they are absent or of another form.
    """
    match attributes_of(extra).get(ATTRIBUTE):
        case {"content": str(content), **others}:
            return _parsed(content, others)
        case _:
            return None


def polled_file(block: MetadataBlock) -> PolledFile | None:
    """The file that a block took, by its attributes or by its source state."""
    if not isinstance(block.event, AddData):
        return None
    polled = polled_content(block.event.extra)
    if polled is not None and polled.name is not None:
        return PolledFile(polled.name, block.system_time, polled)
    name = value_of(block.event.new_source_state, ETAG)
    return None if name is None else PolledFile(name, block.system_time, None)


def polled_before(block: MetadataBlock) -> list[PolledFile]:
    """Files of blocks that compaction has put into this one, newest first."""
    listed = attributes_of(block.event.extra).get(POLLED_BEFORE) if isinstance(block.event, AddData) else None
    found: list[PolledFile] = []
    for item in listed if isinstance(listed, list) else ():
        match item:
            case {"name": str(name), "readAt": str(read_at), **others}:
                try:
                    at = Instant.parse(read_at)
                except ValueError:
                    return found
                content = others.get("content")
                found.append(PolledFile(name, at, _parsed(content, item) if isinstance(content, str) else None))
            case _:
                return found
    return found


def polled_before_value(blocks: Sequence[MetadataBlock]) -> list[dict[str, object]]:
    """As JSON, newest first: the last reading of each file that `blocks` took.

    `blocks` are in order, oldest first.
    """
    by_name: dict[str, PolledFile] = {}
    for block in reversed(blocks):
        for file in (*polled_before(block), polled_file(block)):
            if file is not None:
                by_name.setdefault(file.name, file)
    return [{**_members(file.content), "name": file.name, "readAt": str(file.read_at)} for file in by_name.values()]


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

"""Read what a chain says: its log, and the current metadata of a dataset."""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.walk import ChainLink, walk
from odfabric.errors import InvalidRequest
from odfabric.formats.manifests.manifest_events import event_to_value
from odfabric.formats.manifests.schema_rendering import parse_schema_format, render_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import SetVocab
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.repository import Repository

METADATA_PARTS = ("attachments", "info", "license", "refs", "schema", "seed", "vocab")


def read_log(
    entry: CatalogEntry, *, repository: Repository, blocks_max: int, start: Multihash | None = None
) -> Iterator[ChainLink]:
    """At most `blocks_max` blocks, newest first, from the head or from `start`.

    Raises NotFound, Corrupt.
    """
    head = start or repository.head(entry.id).hash
    for number, link in enumerate(walk(repository.blocks(entry.id), head)):
        if number == blocks_max:
            return
        yield link


def read_metadata(
    entry: CatalogEntry, include: frozenset[str], schema_format: str, *, repository: Repository
) -> dict[str, object]:
    """The parts named by `include`, lower case, in manifest form.

    What the chain does not have is left out.

    Raises InvalidRequest for an unknown part or schema format.
    """
    rendering = parse_schema_format(schema_format)
    unknown = include.difference(METADATA_PARTS)
    if unknown:
        raise InvalidRequest(f"unknown part {sorted(unknown)[0]!r}", hint=f"include takes: {', '.join(METADATA_PARTS)}")
    head, state = repository.current(entry.id)
    found = {
        "attachments": state.attachments,
        "info": state.info,
        "license": state.license,
        "seed": state.seed,
    }
    parts: dict[str, object] = {
        name: event_to_value(located.event)
        for name, located in found.items()
        if name in include and located is not None
    }
    if "refs" in include:
        parts["refs"] = [{"name": "head", "blockHash": str(head.hash)}]
    if "vocab" in include:
        vocabulary = state.vocabulary
        parts["vocab"] = event_to_value(
            SetVocab(
                offset_column=vocabulary.offset,
                operation_type_column=vocabulary.operation_type,
                system_time_column=vocabulary.system_time,
                event_time_column=vocabulary.event_time,
            )
        )
    schema = current_schema(state)
    if "schema" in include and schema is not None:
        parts |= {"schema": render_schema(schema, rendering), "schemaFormat": rendering.value}
    return parts

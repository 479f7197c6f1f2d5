"""Manifests in YAML or JSON to nouns of the model, and values to YAML.

Owns the envelope (`kind`, `version`, `content`), its versions, and the place of an error: file, line, column, field.
Invariant: reading a written manifest gives the noun again. Not here: which events a dataset may begin with, the resolution of
inputs and the normal form of transforms (`domain.chain.snapshot`). Source: specification, "Manifests".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.blocks.block_tables import METADATA_BLOCK, METADATA_EVENT
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.formats.manifests.manifest_documents import Document, read_documents
from odfabric.formats.manifests.manifest_events import (
    VALUE_DEPTH_MAX,
    Flawed,
    build_noun,
    flaw_field,
    noun_to_value,
    snapshot_to_value,
)
from odfabric.formats.manifests.manifest_places import PlacedSnapshot
from odfabric.formats.manifests.manifest_schema import MANIFEST_VERSIONS, SNAPSHOT, Flaw, find_flaws
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.formats.manifests.yaml_writer import dump_yaml
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import MetadataBlock, MetadataEvent

__all__ = [
    "BLOCKS_LIMITS",
    "MANIFEST_LIMITS",
    "BlockManifest",
    "PlacedSnapshot",
    "block_to_manifest",
    "dump_yaml",
    "event_to_manifest",
    "parse_block_manifests",
    "parse_blocks",
    "parse_event",
    "parse_placed_snapshots",
    "parse_snapshots",
    "snapshot_to_manifest",
]

MANIFEST_LIMITS = TextLimits(bytes_max=1024 * 1024, depth_max=VALUE_DEPTH_MAX, nodes_max=100_000)
"""What is read of snapshots and events, which strangers send."""

BLOCKS_LIMITS = TextLimits(bytes_max=16 * 1024 * 1024, depth_max=VALUE_DEPTH_MAX, nodes_max=1_000_000)
"""What is read of manifests of blocks, which are many in one text."""


@dataclass(frozen=True, slots=True)
class BlockManifest:
    """A block in manifest form with the version that its writer stated."""

    version: int
    block: MetadataBlock


def parse_snapshots(
    text: str, *, file: str | None = None, limits: TextLimits = MANIFEST_LIMITS
) -> list[DatasetSnapshot]:
    """All DatasetSnapshot manifests of a text, at least one.

    Raises InvalidManifest, LimitExceeded, with the place.
    """
    return [found.snapshot for found in parse_placed_snapshots(text, file=file, limits=limits)]


def parse_placed_snapshots(
    text: str, *, file: str | None = None, limits: TextLimits = MANIFEST_LIMITS
) -> list[PlacedSnapshot]:
    """As `parse_snapshots`, each with the way back to the places of its queries."""
    found = _contents(text, SNAPSHOT, file=file, limits=limits)
    return [PlacedSnapshot(content.value, content.document, content.top, file) for content in found]


def parse_blocks(text: str, *, file: str | None = None, limits: TextLimits = BLOCKS_LIMITS) -> list[MetadataBlock]:
    """All MetadataBlock manifests of a text, at least one.

    Raises InvalidManifest, LimitExceeded, with the place.
    """
    return [found.value for found in _contents(text, METADATA_BLOCK.name, file=file, limits=limits)]


def parse_block_manifests(
    text: str, *, file: str | None = None, limits: TextLimits = BLOCKS_LIMITS
) -> list[BlockManifest]:
    """As `parse_blocks`, with each version, which determines its bytes and hash."""
    found = _contents(text, METADATA_BLOCK.name, file=file, limits=limits)
    return [BlockManifest(content.version, content.value) for content in found]


def parse_event(text: str, *, file: str | None = None, limits: TextLimits = MANIFEST_LIMITS) -> MetadataEvent:
    """The one MetadataEvent manifest of a text.

    Raises InvalidManifest, LimitExceeded, with the place.
    """
    events: list[MetadataEvent] = [
        found.value for found in _contents(text, METADATA_EVENT.name, file=file, limits=limits)
    ]
    if len(events) != 1:
        raise InvalidManifest(f"expected one manifest, found {len(events)}", place=Place(file=file))
    return events[0]


def block_to_manifest(
    block: MetadataBlock, *, version: int = MANIFEST_VERSIONS[METADATA_BLOCK.name][-1]
) -> dict[str, JsonValue]:
    """The JSON-compatible manifest of a block; `version` is that of its bytes."""
    return _envelope(METADATA_BLOCK.name, version, noun_to_value(block))


def event_to_manifest(event: MetadataEvent) -> dict[str, JsonValue]:
    """The JSON-compatible manifest of an event."""
    return _envelope(METADATA_EVENT.name, MANIFEST_VERSIONS[METADATA_EVENT.name][-1], noun_to_value(event))


def snapshot_to_manifest(snapshot: DatasetSnapshot) -> dict[str, JsonValue]:
    """The JSON-compatible manifest of a dataset to be created."""
    return _envelope(SNAPSHOT, MANIFEST_VERSIONS[SNAPSHOT][-1], snapshot_to_value(snapshot))


def _envelope(kind: str, version: int, content: JsonValue) -> dict[str, JsonValue]:
    return {"kind": kind, "version": version, "content": content}


@dataclass(frozen=True, slots=True)
class _Content:
    """A manifest's content and its place: the document, and the member in it."""

    version: int
    value: Any
    document: Document
    top: tuple[int, ...]


def _contents(text: str, kind: str, *, file: str | None, limits: TextLimits) -> Iterator[_Content]:
    """All manifests of a text; a document is one manifest, or a list of them."""
    found = False
    for document in read_documents(text, file=file, limits=limits):
        many = isinstance(document.value, list)
        for index, value in enumerate(document.value if isinstance(document.value, list) else [document.value]):
            found, top = True, (index,) if many else ()
            try:
                version, content = _content(value, kind)
            except Flawed as error:
                raise _located(error.flaws, document, file=file, top=top) from None
            yield _Content(version, content, document, top)
    if not found:
        raise InvalidManifest(f"the text holds no manifest, expected one of kind {kind}", place=Place(file=file))


def _content(value: JsonValue, kind: str) -> tuple[int, Any]:
    flaws = _envelope_flaws(value, kind) or find_flaws(value, f"{kind}Manifest")
    if flaws:
        raise Flawed(flaws)
    assert isinstance(value, dict)
    return value["version"], build_noun(value["content"], kind, path=("content",))  # type: ignore[return-value]


def _envelope_flaws(value: JsonValue, kind: str) -> list[Flaw]:
    """What readers are to say of another kind or version, before anything else."""
    if not isinstance(value, dict):
        return []
    found, version = value.get("kind"), value.get("version")
    if isinstance(found, str) and found != kind:
        return [Flaw(("kind",), f"expected a manifest of kind `{kind}`, found `{found[:100]}`")]
    if not isinstance(version, int) or isinstance(version, bool):
        return []
    oldest, newest = MANIFEST_VERSIONS[kind][0], MANIFEST_VERSIONS[kind][-1]
    if version < oldest:
        message = f"Obsolete version: manifest has version {version} while minimum supported version is {oldest}"
        return [Flaw(("version",), message)]
    if version > newest:
        message = f"Unsupported version: manifest has version {version} while maximum supported version is {newest}"
        return [Flaw(("version",), message)]
    return []


def _located(flaws: list[Flaw], document: Document, *, file: str | None, top: tuple[int, ...]) -> InvalidManifest:
    """The first flaw in the order of the text.

    In one map an unknown field comes before missing ones, being their cause.
    """

    def order(flaw: Flaw) -> tuple[tuple[int, int], bool, tuple[int, int]]:
        path = (*top, *flaw.path)
        return document.locate(path[:-1] if flaw.at_key else path), not flaw.at_key, document.locate(path, key=True)

    flaw = min(flaws, key=order)
    line, column = document.locate((*top, *flaw.path), key=flaw.at_key)
    place = Place(file=file, line=line, column=column, field=flaw_field((*top, *flaw.path)))
    return InvalidManifest(flaw.message, place=place, hint=flaw.hint)

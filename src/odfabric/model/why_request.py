"""What somebody asks of records, in their words."""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.model.provenance import ProvenanceKind

LIMIT_DEFAULT = 100
ALL_KINDS = ",".join(kind.name.lower() for kind in ProvenanceKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRequest:
    """What somebody asks, in their words.

    `depth` is a number or `all`; `kinds` are words of `ProvenanceKind`; `after` is `next` of the page before. `peers`: other nodes are asked
    where inputs are not here; `hops` counts the nodes that the question came through.
    """

    offsets: tuple[int, ...]
    columns: tuple[str, ...] = ()
    kinds: tuple[str, ...] = field(default_factory=lambda: tuple(ALL_KINDS.split(",")))
    depth: str = "all"
    effort: str = "verified"
    limit: int = LIMIT_DEFAULT
    after: str | None = None
    values: bool = False
    whole: bool = False
    peers: bool = False
    hops: int = 0

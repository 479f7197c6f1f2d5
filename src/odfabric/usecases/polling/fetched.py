"""A file that a polling source gave, and a source that gave none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.domain.sources.polled_content import PolledContent
from odfabric.model.instant import Instant
from odfabric.model.metadata import SourceState


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One fetched file: where it lies, what users call it, what to remember of it.

    `polled` has its hash. `remaining` is how many files wait behind it. `asked` and `status` are of a request. `secrets` are the
    values that went into the request, to be kept out of every text.
    """

    path: Path
    name: str
    source_state: SourceState | None
    event_time: Instant | None
    polled: PolledContent
    remaining: int = 0
    asked: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    resumed: bool = False
    unreachable: str | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotModified:
    """The source has nothing that was not taken before."""

    asked: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None

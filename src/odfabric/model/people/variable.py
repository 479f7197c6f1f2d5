"""Variables and secrets of datasets, which the templates of their sources name."""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable.

    `value` is None where it is not to be read: that of a secret never leaves the node but in a request.
    """

    dataset: DatasetId
    name: str
    is_secret: bool
    changed_at: Instant
    value: str | None = field(default=None, repr=False)

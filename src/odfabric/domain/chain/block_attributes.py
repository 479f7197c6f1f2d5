"""Attributes of extensions that a block carries, `AddData.extra`.

Owns their form as text: compact JSON with sorted keys. Invariant: the attributes of anybody's block are read or passed over, never an error.
Not here: what single attributes mean (the module that owns each).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odfabric.model.data_schema import ExtraAttributes


def as_extra(attributes: Mapping[str, object]) -> ExtraAttributes | None:
    """Attributes as blocks hold them; None without any."""
    if not attributes:
        return None
    return ExtraAttributes(entries=json.dumps(attributes, separators=(",", ":"), sort_keys=True))


def attributes_of(extra: ExtraAttributes | None) -> Mapping[str, Any]:
    """The attributes of a block; none where they are missing or no JSON object."""
    try:
        attributes = json.loads(extra.entries) if extra is not None else None
    except (ValueError, RecursionError):
        return {}
    return attributes if isinstance(attributes, dict) else {}

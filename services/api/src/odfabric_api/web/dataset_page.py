"""What all screens of one dataset have in common: its heading and its tabs, those that the visitor may use."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.domain.access import Action
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.describe_dataset import DatasetDescription
from odfabric_api.auth import Subject, node_of

_ACTIONS = {"may_push": Action.PUSH, "may_follow": Action.FOLLOW, "may_write": Action.WRITE, "may_share": Action.SHARE}


def dataset_frame(request: Request, entry: CatalogEntry, caller: Subject) -> dict[str, Any]:
    """Values of `dataset.html`, the frame of those screens. Raises NotFound, Corrupt."""
    node = node_of(request)
    about: DatasetDescription = node.browsing.describe(entry, by=caller)
    allowed = {name: node.access.allows(caller, action, entry) for name, action in _ACTIONS.items()}
    return {"entry": entry, "about": about, **allowed, "may_delete": node.access.allows(caller, Action.DELETE, entry)}

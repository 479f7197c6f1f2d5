"""The heading and tabs that all screens of a dataset share.

Tabs are those that the visitor may use.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.domain.people.access import Action
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.datasets.describe_dataset import DatasetDescription
from odfabric_api.auth import Subject, node_of

_ACTIONS = {
    "may_push": Action.PUSH,
    "may_follow": Action.FOLLOW,
    "may_write": Action.WRITE,
    "may_share": Action.SHARE,
    "may_rewrite": Action.REWRITE,
    "may_delete": Action.DELETE,
}


def dataset_frame(request: Request, entry: CatalogEntry, caller: Subject) -> dict[str, Any]:
    """Values of `dataset.html`, the frame of those screens. Raises NotFound, Corrupt."""
    about: DatasetDescription = node_of(request).browsing.describe(entry, by=caller)
    return {"entry": entry, "about": about, **allowed_on(request, entry, caller)}


def allowed_on(request: Request, entry: CatalogEntry, caller: Subject) -> dict[str, bool]:
    """What the visitor may do with a dataset, by the names of templates."""
    allowed = node_of(request).access.allowed(caller, entry, _ACTIONS.values())
    return {name: action in allowed for name, action in _ACTIONS.items()}

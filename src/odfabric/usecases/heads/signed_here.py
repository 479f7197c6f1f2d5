"""Whether new blocks of a dataset would be signed on this node.

Invariant: a dataset that was pushed here with its log goes on where its key is, since everybody who knows the log refuses what is not in it.
One whose key was lost here goes on unsigned. Source: ADR 0072.
"""

from __future__ import annotations

from odfabric.errors import InvalidRequest
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.heads.head_writer import HeadWriter


def check_signed_here(entry: CatalogEntry, writer: HeadWriter) -> None:
    """Raise InvalidRequest for a dataset with a log that is signed elsewhere."""
    if writer.is_signed_elsewhere(entry):
        raise InvalidRequest(
            f"the key that signs {entry.alias} is not on this node, and what is not signed is refused elsewhere",
            hint="do it where the dataset is written and push it here again, or move its key here: `odf key export` there, `odf key import` here",
        )

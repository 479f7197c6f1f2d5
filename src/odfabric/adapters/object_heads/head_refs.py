"""`refs/head` of datasets as registers.

Owns reading and the conditional write. Invariant: a register is changed from a text that was read and to a text that it never had
before, so that of several writers one wins, and a write that arrives late changes nothing.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from odfabric.errors import Corrupt, InvalidName
from odfabric.formats.identifiers.dataset_layout import has_no_head, head_key, parse_ref, ref_without_head
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """The text of a register and the block that it refers to; each may be None.

    None if there is no text, or it refers to no block.
    """

    text: str | None
    hash: Multihash | None


class HeadRefs:
    """The registers of a store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def read(self, dataset: DatasetId) -> PublishedHead:
        """What the register says. Raises Corrupt for a text that nobody here has written."""
        text = self._objects.read_ref(head_key(dataset))
        if text is None or has_no_head(text):
            return PublishedHead(text, None)
        try:
            return PublishedHead(text, parse_ref(text))
        except InvalidName as error:
            raise Corrupt(f"refs/head does not name a block: {error.message}", object_name=head_key(dataset)) from error

    def move(self, dataset: DatasetId, *, before: str | None, to: Multihash) -> bool:
        """Refer to `to` if the text is `before`; whether it does now."""
        return self._objects.replace_ref(head_key(dataset), str(to), expected=before)

    def close(self, dataset: DatasetId, *, before: str | None, text: str | None = None) -> str | None:
        """Refer to no block, by `text` or a new one, if the text is `before`.

        Returns the text that is there now, None if it was another.
        """
        text = text or closing_text()
        return text if self._objects.replace_ref(head_key(dataset), text, expected=before) else None


def closing_text() -> str:
    """A text that refers to no block and that no register has had."""
    return ref_without_head(secrets.token_hex(16))

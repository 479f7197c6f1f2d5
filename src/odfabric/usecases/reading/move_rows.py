"""The records of a head move in an event, as streams have them, as many as fit.

Invariant: the same move gives the same, at each attempt and in each process. What does not fit begins at a position that any reader of
changes takes. Not here: what is read at a position (`usecases.reading.read_changes`), the form of the event (`formats.webhooks.cloud_event`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.domain.subscriptions.cursor import changes_after
from odfabric.errors import NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.cursor import CursorPosition
from odfabric.model.subscriptions.subscription import MovedRows
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.reading.read_changes import ChangeReader

PORTIONS_MIN = 4
"""So many portions of a reader at least fit: an event has more than the rows, and escapes make texts up to three times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRows:
    """Reads them.

    `bytes_max` bounds their JSON; `reader` gives at most a `PORTIONS_MIN`-th of that at once.
    """

    repository: Repository
    reader: ChangeReader
    bytes_max: int

    def of_move(self, dataset: DatasetId, old_head: Multihash | None, new_head: Multihash) -> MovedRows:
        """What `(old_head, new_head]` changed.

        Raises NotFound, Corrupt, LimitExceeded, External.
        """
        position, last = self._after(dataset, old_head), self._number(dataset, new_head)
        changes: list[Mapping[str, object]] = []
        left = self.bytes_max
        while True:
            event, after = self.reader.read(dataset, position, rows_max=self.reader.rows_max(None))
            if event is None or event["kind"] != "changes" or int(str(event["sequence"])) > last:
                return MovedRows(changes, None)
            left -= len(json.dumps(event))
            if left < 0:
                return MovedRows(changes, str(position))
            changes.append(event)
            position = after

    def _after(self, dataset: DatasetId, old_head: Multihash | None) -> CursorPosition:
        if old_head is not None:
            return changes_after(old_head, self._number(dataset, old_head))
        seed = next(iter(self.repository.chains.rows_down(dataset, from_sequence=0)), None)
        if seed is None:
            raise NotFound("block", "0")
        return changes_after(seed.hash, 0)  # the first block of a chain has no records

    def _number(self, dataset: DatasetId, head: Multihash) -> int:
        row = self.repository.chains.row(dataset, head)
        if row is None:
            raise NotFound("block", str(head))
        return row.sequence_number

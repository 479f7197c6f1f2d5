"""Which rewrites a dataset has seen, recorded beside it.

A head that went back or aside leaves no trace in the chain, so the objects of a dataset have an area for that: one small JSON document for
each rewrite, named by the heads and the time of it. Invariant: a record is written once, after the head has moved; where the dataset has a
head log, that decides what happened when, and the record adds what no log says: how many records stayed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from itertools import islice

from odfabric.errors import External, InvalidName
from odfabric.formats.identifiers.dataset_layout import rewrite_records_prefix
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.rewrite import Rewrite, RewriteKind
from odfabric.ports.datasets.object_store import ObjectStore

_log = logging.getLogger(__name__)

RECORDS_MAX = 1000
"""Rewrites of a dataset that are looked at."""
RECORD_BYTES_MAX = 4096


def record_rewrite(dataset: DatasetId, rewrite: Rewrite, *, objects: ObjectStore) -> None:
    """Keep what has happened. A record that cannot be kept does not undo the rewrite."""
    # Of two resets to one block each has its record, also of the same reset after a forced pull took it back.
    key = f"{rewrite_records_prefix(dataset)}{rewrite.new_head}-{rewrite.old_head.short}-{rewrite.at.millis}"
    try:
        objects.put_bytes(key, json.dumps(rewrite.to_value(), sort_keys=True).encode())
    except External as error:
        _log.warning("a rewrite of %s is not recorded: %s", dataset, error)


def rewrites(dataset: DatasetId, *, objects: ObjectStore) -> list[Rewrite]:
    """The recorded rewrites, newest first, as far as they can be read."""
    keys = islice(objects.keys(rewrite_records_prefix(dataset)), RECORDS_MAX)
    found = [rewrite for key in keys for rewrite in _read(objects.read_bytes(key, size_max=RECORD_BYTES_MAX))]
    return sorted(found, key=lambda rewrite: rewrite.at, reverse=True)


def _read(data: bytes) -> Iterator[Rewrite]:
    try:
        value = json.loads(data)
        yield Rewrite(
            kind=RewriteKind(value["kind"]),
            old_head=parse_multihash(value["oldHead"]),
            new_head=parse_multihash(value["newHead"]),
            at=Instant.parse(value["at"]),
            rows_kept=_count(value.get("rowsKept")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, InvalidName, RecursionError):
        return


def _count(value: object) -> int | None:
    """None in records from before it was kept."""
    return value if type(value) is int and value >= 0 else None

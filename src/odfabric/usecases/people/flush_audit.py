"""The audit as a dataset: the log continues in the chain of `system/audit`.

An ordinary chain that anybody with the right can verify.

Invariant: every entry is in the dataset once, whatever dies in between. An entry's id is a digest of what it says, and the dataset merges by
it (Ledger), so a batch that is pushed again adds nothing; entries are marked only when their push has committed. Several workers may do it
at once. Not here: writing entries (the ports of the changes do, in their transactions).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import SYSTEM_ACCOUNT
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.audit import StoredAuditEntry
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock
from odfabric.ports.people.audit import AuditLog
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.own_dataset import own_dataset
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.push_data import PushData

AUDIT_ALIAS = DatasetAlias(SYSTEM_ACCOUNT, Name("audit"))
MEDIA_TYPE = "application/x-ndjson"
ID_CHARACTERS = 32

_MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: system/audit
  kind: Root
  metadata:
    - kind: SetInfo
      description: Who has changed or tried to change what on this node
      keywords: [audit]
    - kind: SetVocab
      eventTimeColumn: at
    - kind: AddPushSource
      sourceName: node
      read:
        kind: NdJson
        schema:
          fields:
            - { name: id, type: String }
            - { name: at, type: Timestamp }
            - { name: last_at, type: Timestamp }
            - { name: times, type: Int64 }
            - { name: kind, type: String }
            - { name: outcome, type: String }
            - { name: account, type: { kind: Option, inner: String } }
            - { name: account_name, type: { kind: Option, inner: String } }
            - { name: token, type: { kind: Option, inner: String } }
            - { name: address, type: { kind: Option, inner: String } }
            - { name: target, type: { kind: Option, inner: String } }
            - { name: dataset, type: { kind: Option, inner: String } }
            - { name: detail, type: { kind: Option, inner: String } }
      merge:
        kind: Ledger
        primaryKey: [id]
"""


@dataclass(frozen=True, slots=True)
class AuditBatch:
    """Audit entries to push together, up to the log's id `up_to`."""

    up_to: int
    body: bytes

    def push(self, dataset: DatasetId) -> PushData:
        """The push of these entries; the same batch is the same push."""
        key = f"audit-{hashlib.sha256(self.body).hexdigest()}"
        return PushData(
            dataset=dataset, body=iter([self.body]), file_name="audit", media_type=MEDIA_TYPE, idempotency_key=key
        )


def next_batch(*, audit: AuditLog, clock: Clock, window_s: float, entries_max: int) -> AuditBatch | None:
    """The oldest entries that are not in the dataset yet.

    None if there are none that cannot be counted any more.
    """
    counted_before = Instant(clock.now().epoch_ns - int(window_s * NANOS_PER_SECOND))
    found = audit.unflushed(counted_before=counted_before, limit=entries_max)
    return AuditBatch(found[-1].id, _lines(found)) if found else None


def audit_dataset(*, repository: Repository, commits: Commits, keys: DatasetKeys, clock: Clock) -> CatalogEntry:
    """The dataset, made if it is not there. Raises Determinate, Indeterminate."""
    return own_dataset(AUDIT_ALIAS, _MANIFEST, repository=repository, commits=commits, keys=keys, clock=clock)


def _lines(entries: Sequence[StoredAuditEntry]) -> bytes:
    return b"".join(json.dumps(_row(entry), ensure_ascii=False).encode() + b"\n" for entry in entries)


def _row(stored: StoredAuditEntry) -> dict[str, object]:
    entry = stored.entry
    row: dict[str, object] = {
        "at": str(entry.at.truncated_to_millis()),
        "last_at": str(stored.last_at.truncated_to_millis()),
        "times": stored.count,
        "kind": entry.kind.value,
        "outcome": entry.outcome.value,
        "account": entry.actor.account,
        "account_name": entry.actor.name,
        "token": entry.actor.token,
        "address": entry.actor.address,
        "target": entry.target,
        "dataset": str(entry.dataset) if entry.dataset else None,
        "detail": json.dumps(dict(entry.detail), sort_keys=True, ensure_ascii=False) if entry.detail else None,
    }
    # The number in the log distinguishes equal entries; alone it would begin again where a database is made again.
    said = json.dumps([stored.id, str(entry.at), row], sort_keys=True)
    return {"id": hashlib.sha256(said.encode()).hexdigest()[:ID_CHARACTERS], **row}

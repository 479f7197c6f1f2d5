"""Intents of commits in SQL.

Owns the rows and the JSON of what has no column. The column `new_head` holds the key of the intent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row, delete, select, update

from odfabric.adapters.sql.database import Database, insert_all_new, insert_new
from odfabric.adapters.sql.jobs.jobs import hold_uncancelled
from odfabric.adapters.sql.tables.jobs import commit_intent_jobs, commit_intents
from odfabric.errors import AlreadyExists
from odfabric.formats.identifiers.did import parse_account_id, parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry, CommitIntent, IdempotencyRecord, OutboxMessage
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind, AuditOutcome
from odfabric.ports.node.sealing import SealedRow, dataset_key_context


class SqlCommitIntents:
    """A CommitIntents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, intent: CommitIntent) -> None:
        """See the port."""
        values = {
            "new_head": intent.key,
            "old_head": intent.message.old_head,
            "dataset_id": intent.message.dataset_id,
            "occurred_at": intent.message.occurred_at,
            "document": _document(intent),
        }
        jobs = [{"job_id": job_id, "new_head": intent.key} for job_id in intent.job_ids]
        with self._database.write() as connection:
            hold_uncancelled(connection, intent.job_ids)
            if not (
                insert_all_new(connection, commit_intent_jobs, jobs) and insert_new(connection, commit_intents, values)
            ):
                raise AlreadyExists("a job of this commit is just committing")

    def drop(self, key: Multihash) -> None:
        """See the port."""
        with self._database.write() as connection:
            connection.execute(delete(commit_intent_jobs).where(commit_intent_jobs.c.new_head == key))
            connection.execute(delete(commit_intents).where(commit_intents.c.new_head == key))

    def all(self) -> Sequence[CommitIntent]:
        """See the port."""
        with self._database.read() as connection:
            rows = connection.execute(select(commit_intents).order_by(commit_intents.c.position)).all()
        return [_intent(row) for row in rows]


class SqlIntentKeys:
    """A SealedStore: private keys of datasets whose first commit is under way.

    All intents are read at once, for they are few.
    """

    name = "dataset keys of commits under way"
    may_be_plain = False

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_plain(self, data: bytes) -> bool:
        """See the port."""
        return False

    def rows(self, *, unlike: bytes, after: str | None, limit: int) -> Sequence[SealedRow]:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(commit_intents.c.new_head, commit_intents.c.document)).all()
        rows = [_sealed_row(str(key), document) for key, document in found]
        wanted = [row for row in rows if row and not row.data.startswith(unlike) and row.key > (after or "")]
        return sorted(wanted, key=lambda row: row.key)[:limit]

    def replace(self, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
        """See the port."""
        replaced = 0
        if changes:
            with self._database.write() as connection:
                for row, data in changes:
                    at = commit_intents.c.new_head == parse_multihash(row.key)
                    document = connection.execute(
                        select(commit_intents.c.document).where(at).with_for_update()
                    ).scalar_one_or_none()
                    if document is not None and _sealed_row(row.key, document) == row:
                        value = json.loads(document)
                        value["entry"]["sealedKey"] = data.hex()
                        connection.execute(update(commit_intents).where(at).values(document=_text(value)))
                        replaced += 1
        return replaced


def _sealed_row(key: str, document: str) -> SealedRow | None:
    entry = json.loads(document)["entry"]
    if not entry or entry["sealedKey"] is None:
        return None
    return SealedRow(key, dataset_key_context(parse_dataset_id(entry["id"])), bytes.fromhex(entry["sealedKey"]))


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True)


def _document(intent: CommitIntent) -> str:
    records = [
        {"key": record.key_hash.hex(), "body": record.body_digest.hex(), "block": str(record.block_hash)}
        for record in intent.idempotency
    ]
    entry = _entry_value(intent.entry) if intent.entry else None
    value = {
        "records": records,
        "jobs": intent.job_ids,
        "entry": entry,
        "refBefore": intent.ref_before,
        "grants": [_grant_value(grant) for grant in intent.grants],
        "audit": [_audit_value(told) for told in intent.audit],
        "closing": intent.closing,
    }
    return _text(value)


def _entry_value(entry: CatalogEntry) -> dict[str, object]:
    return {
        "id": str(entry.id),
        "alias": str(entry.alias),
        "kind": entry.kind.name,
        "createdAt": str(entry.created_at),
        "sealedKey": entry.sealed_key.hex() if entry.sealed_key is not None else None,
        "remoteUrl": entry.remote_url,
    }


def _intent(row: Row[tuple[object, ...]]) -> CommitIntent:
    document = json.loads(row.document)
    closing = document.get("closing")  # it and the two below are not in documents of older releases
    records = [
        IdempotencyRecord(bytes.fromhex(one["key"]), bytes.fromhex(one["body"]), parse_multihash(one["block"]))
        for one in document["records"]
    ]
    return CommitIntent(
        message=OutboxMessage(row.dataset_id, row.old_head, None if closing else row.new_head, row.occurred_at),
        idempotency=tuple(records),
        job_ids=tuple(document["jobs"]),
        entry=_entry(document["entry"]) if document["entry"] else None,
        ref_before=document["refBefore"],
        grants=tuple(_grant(row.dataset_id, one) for one in document.get("grants", ())),
        audit=tuple(map(_audit_entry, document.get("audit", ()))),
        closing=closing,
    )


def _entry(value: dict[str, str]) -> CatalogEntry:
    return CatalogEntry(
        id=parse_dataset_id(value["id"]),
        alias=parse_dataset_alias(value["alias"]),
        kind=DatasetKind[value["kind"]],
        created_at=Instant.parse(value["createdAt"]),
        sealed_key=bytes.fromhex(value["sealedKey"]) if value["sealedKey"] is not None else None,
        remote_url=value["remoteUrl"],
    )


def _grant_value(grant: Grant) -> dict[str, str]:
    return {"grantee": str(grant.grantee), "role": grant.role.value}


def _grant(dataset: DatasetId, value: dict[str, str]) -> Grant:
    grantee = EVERYONE if value["grantee"] == EVERYONE else parse_account_id(value["grantee"])
    return Grant(dataset=dataset, grantee=grantee, role=DatasetRole(value["role"]))


def _audit_value(entry: AuditEntry) -> dict[str, object]:
    return {
        "kind": entry.kind.value,
        "actor": asdict(entry.actor),
        "at": str(entry.at),
        "target": entry.target,
        "dataset": str(entry.dataset) if entry.dataset is not None else None,
        "outcome": entry.outcome.value,
        "detail": dict(entry.detail),
    }


def _audit_entry(value: dict[str, Any]) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind(value["kind"]),
        actor=Actor(**value["actor"]),
        at=Instant.parse(value["at"]),
        target=value["target"],
        dataset=parse_dataset_id(value["dataset"]) if value["dataset"] is not None else None,
        outcome=AuditOutcome(value["outcome"]),
        detail=value["detail"],
    )

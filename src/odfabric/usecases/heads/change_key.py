"""Export, import and rotate the key that signs a dataset.

Invariant: a key that was handed over signs nothing more; the audit names who has exported, imported or rotated one, and never a key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.errors import AccessDenied, Changed, InvalidRequest, Place
from odfabric.formats.heads.head_log import shown_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock
from odfabric.ports.people.audit import AuditLog
from odfabric.usecases.heads.head_writer import HeadWriter

PRIVATE_BYTES = 32
ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPorts:
    """What changes of keys need."""

    writer: HeadWriter
    keys: DatasetKeys
    audit: AuditLog
    clock: Clock


@dataclass(frozen=True, slots=True)
class ExportedKey:
    """A private key of 32 bytes and its public half."""

    private: bytes = field(repr=False)
    public: bytes


def export_key(entry: CatalogEntry, *, by: Actor, ports: KeyPorts) -> ExportedKey:
    """The private key of a dataset, noted in the audit before it is given.

    Raises AccessDenied if it is not on this node, Corrupt if it does not open.
    """
    sealed = _sealed(entry)
    private, public = ports.keys.reveal(entry.id, sealed), ports.keys.public(entry.id, sealed)
    ports.audit.add(_entry(AuditKind.DATASET_KEY_EXPORTED, entry, by, public, ports))
    return ExportedKey(private, public)


def import_key(entry: CatalogEntry, private: bytes, *, by: Actor, ports: KeyPorts) -> None:
    """Keep the private key that signs the dataset now.

    Raises InvalidRequest for bytes that are no key, or the key of another signer.
    """
    if len(private) != PRIVATE_BYTES:
        raise InvalidRequest(f"a key has {PRIVATE_BYTES} bytes, not {len(private)}", place=Place(field="key"))
    made = ports.keys.keep(entry.id, private)
    signer = ports.writer.end(entry.id).signer
    if made.public != signer:
        raise InvalidRequest(
            f"the key is of {shown_key(made.public)}, {entry.alias} is signed by {shown_key(signer)}",
            place=Place(field="key"),
            hint="import the key that was exported after the last hand-over",
        )
    audit = [_entry(AuditKind.DATASET_KEY_IMPORTED, entry, by, made.public, ports)]
    ports.writer.logs.hand_over(entry.id, (), sealed_key=made.sealed_private, audit=audit)


def rotate_key(entry: CatalogEntry, *, by: Actor, ports: KeyPorts) -> bytes:
    """Make a new key, and hand over to it; its public half.

    Raises AccessDenied if the present key is not here, Changed if the log goes on all the time.
    """
    _sealed(entry)
    ports.writer.catch_up(entry.id)
    made = ports.keys.create(entry.id)
    for attempt in range(ATTEMPTS_MAX):
        move = ports.writer.hand_over_move(entry, made.public)
        audit = [_entry(AuditKind.DATASET_KEY_ROTATED, entry, by, made.public, ports)]
        try:
            ports.writer.logs.hand_over(entry.id, [move], sealed_key=made.sealed_private, audit=audit)
        except Changed:
            if attempt + 1 == ATTEMPTS_MAX:
                raise
        else:
            break
    return made.public


def _sealed(entry: CatalogEntry) -> bytes:
    if entry.sealed_key is None:
        raise AccessDenied(
            f"the key of {entry.alias} is not on this node",
            hint="do it on the node that made the dataset, or import its key first",
        )
    return entry.sealed_key


def _entry(kind: AuditKind, entry: CatalogEntry, by: Actor, public: bytes, ports: KeyPorts) -> AuditEntry:
    return AuditEntry(
        kind=kind,
        actor=by,
        at=ports.clock.now(),
        target=str(entry.alias),
        dataset=entry.id,
        detail={"signer": shown_key(public)},
    )

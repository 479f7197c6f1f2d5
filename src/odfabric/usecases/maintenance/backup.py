"""Backups of a node: database at one moment, keys, objects.

Later backups in the same place share the objects.

Owns the layout of a place with backups, any store of objects:

    objects/<key>                   write-once objects under the keys that they have in the node
    backups/<id>/tables/<name>.gz   rows of a table, a JSON object each; bytes are {"b64": ..}
    backups/<id>/files/<name>       files of the workspace that only the node may read
    backups/<id>/refs.gz            refs and names, [key, text] each
    backups/<id>/objects.gz         keys of the objects that belong to this backup, one each
    backups/<id>/manifest.json      written last: a backup without it is unfinished and is not restored

Invariants: the database is read first, then refs, then objects, so that everything that a row or a ref names is there; an object that is
named by its hash is hashed on its way out and on its way back. A restore puts the rows in last, in one transaction, so that one that is
interrupted is repeated; a ref that is in the target already is newer and stays. What was published after the rows were read is
taken into the database by `usecases.maintenance.rebuild` afterwards.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from odfabric.errors import AlreadyExists, Corrupt, InvalidName, InvalidRequest, NotFound
from odfabric.formats.identifiers.dataset_layout import (
    BLOCKS,
    CHECKPOINTS,
    DATA,
    NAMES,
    alias_key,
    dataset_of_key,
    head_key,
)
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.multihash import sha3_256_multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.node.database_copy import DatabaseCopy, Row
from odfabric.usecases.ingestion.digesting_stream import DigestingStream
from odfabric.usecases.ingestion.staging import STAGING_PREFIX

FORMAT = 1
MANIFEST_BYTES_MAX = 1 << 20
FOLDERS = ("backups", "objects")
"""What lies at the top of a place; both hold secrets."""
_BACKUPS, _OBJECTS, _MANIFEST = *(f"{folder}/" for folder in FOLDERS), "manifest.json"
_COPY_BYTES = 1 << 20
_NAMED_BY_HASH = (BLOCKS, DATA, CHECKPOINTS)
_REPLACEABLE = ("refs", "info")

Listener = Callable[[str, int], None]
"""Hears what is being done, and how many rows or objects of it are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A finished backup.

    `parts` has the SHA3-256 of each, in hexadecimal; `damaged` are keys that were left out, with the reason.
    """

    id: str
    created_at: str
    release: str
    revision: str
    tables: Mapping[str, int]
    sequences: Mapping[str, int]
    files: tuple[str, ...]
    parts: Mapping[str, str]
    objects: int
    damaged: Mapping[str, str] = field(default_factory=dict)

    def to_value(self) -> dict[str, object]:
        """As JSON, which `manifest.json` is too."""
        return {
            "format": FORMAT,
            "id": self.id,
            "createdAt": self.created_at,
            "release": self.release,
            "revision": self.revision,
            "tables": dict(self.tables),
            "sequences": dict(self.sequences),
            "files": list(self.files),
            "parts": dict(self.parts),
            "objects": self.objects,
            "damaged": dict(self.damaged),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPorts:
    """The stores of the node, and `place`, where backups are."""

    database: DatabaseCopy
    objects: ObjectStore
    place: ObjectStore


def back_up(
    *,
    ports: BackupPorts,
    files: Mapping[str, bytes],
    release: str,
    clock: Clock,
    entropy: Entropy,
    listener: Listener = lambda stage, done: None,
) -> Backup:
    """Make one; objects that are in the place already are not copied again.

    Raises InvalidRequest, Determinate, Indeterminate.
    """
    now = clock.now()
    moment = str(now).partition(".")[0].removesuffix("Z").replace(":", "")
    writing = _Writing(ports, f"{moment}Z-{entropy.random_bytes(3).hex()}", listener)
    with ports.database.snapshot() as snapshot:
        datasets: list[str] = []
        tables = {name: writing.table(name, _seen(snapshot.rows(name), name, datasets)) for name in snapshot.tables}
        revision, sequences = snapshot.revision, snapshot.sequences()
    for name, content in files.items():
        writing.part(f"files/{name}", iter([content]))
    writing.refs(datasets)
    count = writing.objects()
    made = Backup(
        id=writing.id,
        created_at=str(now),
        release=release,
        revision=revision,
        tables=tables,
        sequences=sequences,
        files=tuple(sorted(files)),
        parts=writing.parts,
        objects=count,
        damaged=writing.damaged,
    )
    ports.place.put_bytes(f"{_BACKUPS}{made.id}/{_MANIFEST}", json.dumps(made.to_value(), indent=1).encode())
    return made


def backups(place: ObjectStore) -> list[Backup]:
    """Finished backups, oldest first.

    Raises Corrupt for a manifest that is none, InvalidRequest for one of a later format.
    """
    keys = (key for key in place.keys(_BACKUPS) if key.endswith(f"/{_MANIFEST}"))
    return sorted((_manifest(place, key) for key in keys), key=lambda backup: backup.created_at)


def restore(
    backup_id: str | None,
    *,
    ports: BackupPorts,
    put_files: Callable[[Mapping[str, bytes]], None],
    listener: Listener = lambda stage, done: None,
) -> Backup:
    """Bring a backup back, the newest if none is named.

    With what is `damaged`, which did not come back.

    Raises NotFound, Corrupt for a part that is not what it was, AlreadyExists for a node that is there already, Determinate, Indeterminate.
    """
    backup = _chosen(backups(ports.place), backup_id)
    if not ports.database.is_empty():
        raise AlreadyExists(
            "there is a node already: its database has rows",
            hint="restore into a new folder, or into an empty database",
        )
    reading = _Reading(ports, backup, listener)
    reading.check_parts()
    put_files({name: reading.bytes_of(f"files/{name}") for name in backup.files})
    damaged = {**backup.damaged, **reading.objects()}
    reading.refs()
    tables = ((name, reading.rows(name)) for name in backup.tables)
    ports.database.load(backup.revision, tables, backup.sequences)
    return replace(backup, damaged=damaged)


class _Writing:
    """One backup that is being made."""

    def __init__(self, ports: BackupPorts, backup_id: str, listener: Listener) -> None:
        self.id = backup_id
        self.parts: dict[str, str] = {}
        self.damaged: dict[str, str] = {}
        self._ports = ports
        self._listener = listener

    def part(self, name: str, chunks: Iterator[bytes]) -> None:
        stream = DigestingStream(chunks)
        self._ports.place.put_stream(f"{_BACKUPS}{self.id}/{name}", stream)
        self.parts[name] = stream.digest.hexdigest()

    def table(self, name: str, rows: Iterable[Row]) -> int:
        count = 0

        def lines() -> Iterator[bytes]:
            nonlocal count
            for count, row in enumerate(rows, 1):
                self._listener(f"rows of {name}", count)
                yield json.dumps({key: _packed_value(value) for key, value in row.items()}).encode() + b"\n"

        self.part(f"tables/{name}.gz", _gzipped(lines()))
        return count

    def refs(self, datasets: Iterable[str]) -> None:
        """Read refs before the objects: a ref names a block that was written before."""
        objects = self._ports.objects
        keys = (key for text in datasets for key in _refs_of(text))

        def lines() -> Iterator[bytes]:
            for key in chain(keys, objects.keys(f"{NAMES}/")):
                if (text := objects.read_ref(key)) is not None:
                    yield json.dumps([key, text]).encode() + b"\n"

        self.part("refs.gz", _gzipped(lines()))

    def objects(self) -> int:
        """Copy those that the place does not have; both lists are in the same order."""
        count = 0

        def lines() -> Iterator[bytes]:
            nonlocal count
            there = self._ports.place.keys(_OBJECTS)
            known = next(there, None)
            for key in filter(_is_kept, self._ports.objects.keys("")):
                while known is not None and known < _OBJECTS + key:
                    known = next(there, None)
                if known == _OBJECTS + key or self._copied(key):
                    count += 1
                    self._listener("objects", count)
                    yield f"{key}\n".encode()

        self.part("objects.gz", _gzipped(lines()))
        return count

    def _copied(self, key: str) -> bool:
        try:
            _copy(key, self._ports.objects, key, self._ports.place, _OBJECTS + key)
        except NotFound:
            return False  # the collector was here: nothing names it any more
        except Corrupt as error:
            self.damaged[key] = str(error)
            return False
        return True


class _Reading:
    """One backup that is being restored."""

    def __init__(self, ports: BackupPorts, backup: Backup, listener: Listener) -> None:
        self._ports = ports
        self._backup = backup
        self._listener = listener

    def check_parts(self) -> None:
        """Before anything is written. Raises Corrupt, NotFound."""
        for name, digest in self._backup.parts.items():
            found = hashlib.sha3_256()
            for chunk in self._chunks(name):
                found.update(chunk)
            if found.hexdigest() != digest:
                raise Corrupt(f"{name} of the backup {self._backup.id} is damaged", object_name=name)

    def bytes_of(self, name: str) -> bytes:
        return b"".join(self._chunks(name))

    def objects(self) -> dict[str, str]:
        """Bring the objects back; those that cannot be, with the reason."""
        lost: dict[str, str] = {}
        for count, line in enumerate(self._lines("objects.gz"), 1):
            key = line.decode()
            try:
                if self._ports.objects.stat(key) is None:
                    _copy(key, self._ports.place, _OBJECTS + key, self._ports.objects, key)
            except (NotFound, Corrupt) as error:
                lost[key] = str(error)
            self._listener("objects", count)
        return lost

    def refs(self) -> None:
        for line in self._lines("refs.gz"):
            key, text = json.loads(line)
            self._ports.objects.replace_ref(key, text, expected=None)

    def rows(self, table: str) -> Iterator[Row]:
        for count, line in enumerate(self._lines(f"tables/{table}.gz"), 1):
            self._listener(f"rows of {table}", count)
            yield {name: _unpacked_value(value) for name, value in json.loads(line).items()}

    def _chunks(self, name: str) -> Iterator[bytes]:
        with self._ports.place.open(f"{_BACKUPS}{self._backup.id}/{name}") as stream:
            while chunk := stream.read(_COPY_BYTES):
                yield chunk

    def _lines(self, name: str) -> Iterator[bytes]:
        with (
            self._ports.place.open(f"{_BACKUPS}{self._backup.id}/{name}") as stream,
            gzip.GzipFile(fileobj=stream) as unpacked,
        ):
            for line in unpacked:
                yield line.rstrip(b"\n")


def _chosen(found: list[Backup], backup_id: str | None) -> Backup:
    if not found:
        raise NotFound(
            "backup",
            backup_id or "any",
            hint="`odf backup` makes one; a place is the folder or s3:// that it was given",
        )
    if backup_id is None:
        return found[-1]
    for backup in found:
        if backup.id == backup_id:
            return backup
    raise NotFound("backup", backup_id, hint=f"there are {', '.join(one.id for one in found[-5:])}")


def _manifest(place: ObjectStore, key: str) -> Backup:
    try:
        value = json.loads(place.read_bytes(key, size_max=MANIFEST_BYTES_MAX))
        if value["format"] > FORMAT:
            raise InvalidRequest(
                f"{key} was made by release {value['release']}, in a form of later releases",
                hint="restore with that release, or a newer one",
            )
        return Backup(
            id=value["id"],
            created_at=value["createdAt"],
            release=value["release"],
            revision=value["revision"],
            tables=value["tables"],
            sequences=value["sequences"],
            files=tuple(value["files"]),
            parts=value["parts"],
            objects=value["objects"],
            damaged=value["damaged"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{key} is no manifest of a backup", object_name=key) from error


def _seen(rows: Iterator[Row], table: str, datasets: list[str]) -> Iterator[Row]:
    """The rows; identities of datasets are noted on the way."""
    for row in rows:
        if table == "datasets":
            datasets.append(str(row["id"]))
        yield row


def _refs_of(stored_id: str) -> tuple[str, str]:
    dataset = parse_dataset_id(f"did:odf:{stored_id}")  # the database has it without the prefix
    return head_key(dataset), alias_key(dataset)


def _is_kept(key: str) -> bool:
    """Write-once objects of datasets, and uploads that jobs wait with.

    Not what a node makes again, as indexes.
    """
    if dataset_of_key(key) is None:
        return key.startswith(STAGING_PREFIX)
    return key.split("/")[1] not in _REPLACEABLE


def _copy(key: str, source: ObjectStore, source_key: str, target: ObjectStore, target_key: str) -> None:
    """Copy an object.

    Raises NotFound, Corrupt if it is not what its name, the last part of `key`, says; then nothing is written.
    """

    def chunks() -> Iterator[bytes]:
        digest = hashlib.sha3_256()
        while chunk := stream.read(_COPY_BYTES):
            digest.update(chunk)
            yield chunk
        if not _is_named_well(key, digest.digest()):
            raise Corrupt(f"{key} does not hash to its name", object_name=key)

    with source.open(source_key) as stream:
        target.put_stream(target_key, DigestingStream(chunks()))


def _is_named_well(key: str, digest: bytes) -> bool:
    folder, _, name = key.rpartition("/")
    if not folder.endswith(tuple(f"/{one}" for one in _NAMED_BY_HASH)):
        return True
    try:
        return parse_multihash(name) == sha3_256_multihash(digest)
    except InvalidName:
        return False


def _gzipped(lines: Iterator[bytes]) -> Iterator[bytes]:
    packing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    for line in lines:
        if packed := packing.compress(line):
            yield packed
    yield packing.flush()


def _packed_value(value: object) -> object:
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked_value(value: object) -> int | float | str | bytes | bool | None:
    match value:
        case {"b64": str(text)}:
            return base64.b64decode(text)
        case bool() | int() | float() | str() | None:
            return value
        case _:
            raise Corrupt("a row of the backup has a value that no database has", object_name="tables")

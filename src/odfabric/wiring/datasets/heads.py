"""Signed heads, bound to the ports of a node."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import InvalidRequest, Place
from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.heads.key_document import (
    NONCE_BYTES,
    SALT_BYTES,
    check_passphrase,
    is_sealed_document,
    read_key_document,
    write_key_document,
)
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.heads.change_key import ExportedKey, KeyPorts, export_key, import_key, rotate_key
from odfabric.usecases.heads.serve_log import HeadSigner, HeadsPage, accept_log, describe_heads, serve_log, signer_of
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class HeadVerbs:
    """The log of heads, and the keys that sign it."""

    core: NodeCore

    def file(self, entry: CatalogEntry, path: str) -> bytes:
        """A file of the log by its path. Raises NotFound."""
        return serve_log(entry, path, writer=self.core.heads.writer, objects=self.core.ports.objects)

    def accept(self, entry: CatalogEntry, path: str, data: bytes) -> None:
        """Continue the log of a dataset that a peer has pushed."""
        new = accept_log(entry, path, data, judge=self.core.log_judge, chains=self.core.ports.chains)
        if new or path.endswith(".sig"):
            self.core.commits.publish_log(entry.id)

    def described(self, entry: CatalogEntry, *, before: int | None = None, limit: int = 50) -> HeadsPage:
        """The newest entries of the log, and who signs it. Raises NotFound."""
        return describe_heads(entry, writer=self.core.heads.writer, before=before, limit=limit)

    def signer(self, entry: CatalogEntry) -> HeadSigner | None:
        """Who signs the dataset's heads now; None if nobody does. Raises Corrupt."""
        return signer_of(entry, writer=self.core.heads.writer)

    def rotate(self, entry: CatalogEntry, *, by: Subject) -> bytes:
        """Give the dataset another key, by an entry that the present one signs.

        The new public half.

        Raises NotFound, AccessDenied.
        """
        self.core.access.require(by, Action.REWRITE, entry)
        public = rotate_key(entry, by=by.actor, ports=self._key_ports)
        self.core.commits.publish_log(entry.id)
        return public

    def export(self, entry: CatalogEntry, *, by: Subject) -> ExportedKey:
        """The private key of the dataset, for its owner. Raises NotFound, AccessDenied."""
        self.core.access.require(by, Action.REWRITE, entry)
        return export_key(entry, by=by.actor, ports=self._key_ports)

    def import_(self, entry: CatalogEntry, private: bytes, *, by: Subject) -> None:
        """Keep the private key that signs the dataset now.

        Raises NotFound, AccessDenied, InvalidRequest.
        """
        self.core.access.require(by, Action.REWRITE, entry)
        import_key(entry, private, by=by.actor, ports=self._key_ports)
        self.core.commits.publish_log(entry.id)

    def export_sealed(self, entry: CatalogEntry, *, passphrase: str, by: Subject) -> bytes:
        """The document of the private key, sealed by the passphrase.

        Raises as `export`, InvalidRequest for a short passphrase, before anything is noted.
        """
        check_passphrase(passphrase)
        return self.document(entry, self.export(entry, by=by), passphrase=passphrase)

    def document(self, entry: CatalogEntry, found: ExportedKey, *, passphrase: str | None) -> bytes:
        """The document of an exported key; without a passphrase it is in the clear."""
        entropy = self.core.ports.entropy
        return write_key_document(
            entry.id,
            found.private,
            signer=shown_key(found.public),
            passphrase=passphrase,
            salt=entropy.random_bytes(SALT_BYTES),
            nonce=entropy.random_bytes(NONCE_BYTES),
        )

    def import_sealed(self, entry: CatalogEntry, document: bytes, *, passphrase: str, by: Subject) -> bytes:
        """Keep the private key of a sealed document; its public half.

        Raises as `import_`, InvalidRequest for a document that is not sealed or that the passphrase does not open.
        """
        self.core.access.require(by, Action.REWRITE, entry)
        if not is_sealed_document(document):
            raise InvalidRequest(
                "the key is not sealed", place=Place(field="document"), hint="export it with a passphrase"
            )
        self.import_(entry, read_key_document(entry.id, document, passphrase=passphrase), by=by)
        return self.core.heads.writer.end(entry.id).signer

    @property
    def _key_ports(self) -> KeyPorts:
        ports = self.core.ports
        return KeyPorts(writer=self.core.heads.writer, keys=ports.keys, audit=ports.audit, clock=ports.clock)

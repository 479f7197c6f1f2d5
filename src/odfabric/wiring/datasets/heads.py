"""Signed heads, bound to the ports of a node."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
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

    @property
    def _key_ports(self) -> KeyPorts:
        ports = self.core.ports
        return KeyPorts(writer=self.core.heads.writer, keys=ports.keys, audit=ports.audit, clock=ports.clock)

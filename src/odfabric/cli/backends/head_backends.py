"""Verbs of signed heads on a workspace, and on a node over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from odfabric.errors import InvalidRequest

if TYPE_CHECKING:
    from odfabric.cli.backends.cursor_backends import PathOf, Send
    from odfabric.model.commit import CatalogEntry
    from odfabric.model.engine import EngineProgress
    from odfabric.wiring import Node


class HeadBackend(Protocol):
    """The log of heads of a dataset, and the key that signs it."""

    def described(self, ref: str, *, limit: int) -> dict[str, Any]:
        """What `GET heads` answers, newest first.

        `{signer, signedSince, entries, keyIsHere, lastSeen, handOvers, moves}`.
        """

    def verify(self, url: str) -> Mapping[str, object]:
        """The report of a dataset elsewhere."""

    def rotate(self, ref: str) -> str:
        """The new signer."""

    def export(self, ref: str, *, passphrase: str | None) -> bytes:
        """The document of the key."""

    def import_(self, ref: str, document: bytes, *, passphrase: str | None) -> None:
        """Keep the key of a document."""


class WorkspaceHeads:
    """A `HeadBackend` on a node of this process."""

    def __init__(self, node: Node, resolve: Callable[[str], CatalogEntry]) -> None:
        self._node = node
        self._resolve = resolve

    def described(self, ref: str, *, limit: int) -> dict[str, Any]:
        """See the protocol."""
        return self._node.heads.described(self._resolve(ref), limit=limit).to_value()

    def verify(self, url: str) -> Mapping[str, object]:
        """See the protocol."""

        def ignore(progress: EngineProgress) -> None:
            del progress

        return self._node.sharing.verify(self._url_of(url), report=ignore)

    def _url_of(self, ref: str) -> str:
        from odfabric.cli.backends.sharing_backends import place_written

        return self._node.sharing.names.source_url(place_written(ref), self._node.operator)

    def rotate(self, ref: str) -> str:
        """See the protocol."""
        from odfabric.formats.heads.head_log import shown_key

        return shown_key(self._node.heads.rotate(self._resolve(ref), by=self._node.operator))

    def export(self, ref: str, *, passphrase: str | None) -> bytes:
        """See the protocol."""
        entry, heads, by = self._resolve(ref), self._node.heads, self._node.operator
        if passphrase is not None:
            return heads.export_sealed(entry, passphrase=passphrase, by=by)
        return heads.document(entry, heads.export(entry, by=by), passphrase=None)

    def import_(self, ref: str, document: bytes, *, passphrase: str | None) -> None:
        """See the protocol."""
        from odfabric.formats.heads.key_document import read_key_document

        entry = self._resolve(ref)
        private = read_key_document(entry.id, document, passphrase=passphrase)
        self._node.heads.import_(entry, private, by=self._node.operator)


class NodeHeads:
    """A `HeadBackend` on a node over HTTP; keys travel sealed."""

    def __init__(self, send: Send, path_of: PathOf) -> None:
        self._send = send
        self._path_of = path_of

    def described(self, ref: str, *, limit: int) -> dict[str, Any]:
        """See the protocol."""
        found: dict[str, Any] = self._send("GET", f"{self._path_of(ref)}/heads", params={"limit": limit}).json()
        return found

    def verify(self, url: str) -> Mapping[str, object]:
        """Never: a workspace does it."""
        raise InvalidRequest(f"{url} is verified by a workspace", hint="leave --node out")

    def rotate(self, ref: str) -> str:
        """See the protocol."""
        return str(self._send("POST", f"{self._path_of(ref)}/key/rotate").json()["signer"])

    def export(self, ref: str, *, passphrase: str | None) -> bytes:
        """See the protocol. Only sealed."""
        if passphrase is None:
            raise _unsealed(ref)
        return self._send("POST", f"{self._path_of(ref)}/key/export", json={"passphrase": passphrase}).content

    def import_(self, ref: str, document: bytes, *, passphrase: str | None) -> None:
        """See the protocol. Only sealed."""
        if passphrase is None:
            raise _unsealed(ref)
        body = {"document": document.decode(), "passphrase": passphrase}
        self._send("POST", f"{self._path_of(ref)}/key/import", json=body)


def _unsealed(ref: str) -> InvalidRequest:
    return InvalidRequest(
        f"{ref}: a key goes over the network only sealed",
        hint="give it a passphrase, or do it on the node's own machine with --workspace",
    )


def place_of(ref: str) -> str | None:
    """The URL of a dataset elsewhere, or of a folder; None for a name.

    `a/b` is a folder only if a dataset is in it.
    """
    from odfabric.cli.backends.sharing_backends import place_written

    if "://" in ref:
        return ref
    written = place_written(ref)
    if written != ref:
        return written
    return Path(ref).resolve().as_uri() if "/" in ref and (Path(ref) / "refs").is_dir() else None

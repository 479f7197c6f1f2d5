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

NOT_THERE = "keys of datasets do not travel over the network"


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

        return self._node.sharing.verify(url, report=ignore)

    def rotate(self, ref: str) -> str:
        """See the protocol."""
        from odfabric.formats.heads.head_log import shown_key

        return shown_key(self._node.heads.rotate(self._resolve(ref), by=self._node.operator))

    def export(self, ref: str, *, passphrase: str | None) -> bytes:
        """See the protocol."""
        from odfabric.formats.heads.head_log import shown_key
        from odfabric.formats.heads.key_document import NONCE_BYTES, SALT_BYTES, write_key_document

        entry, entropy = self._resolve(ref), self._node.ports.entropy
        found = self._node.heads.export(entry, by=self._node.operator)
        return write_key_document(
            entry.id,
            found.private,
            signer=shown_key(found.public),
            passphrase=passphrase,
            salt=entropy.random_bytes(SALT_BYTES),
            nonce=entropy.random_bytes(NONCE_BYTES),
        )

    def import_(self, ref: str, document: bytes, *, passphrase: str | None) -> None:
        """See the protocol."""
        from odfabric.formats.heads.key_document import read_key_document

        entry = self._resolve(ref)
        private = read_key_document(entry.id, document, passphrase=passphrase)
        self._node.heads.import_(entry, private, by=self._node.operator)


class NodeHeads:
    """A `HeadBackend` on a node over HTTP, which shows the log and moves no keys."""

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
        """Never: the node's operator does it."""
        raise _refused(ref)

    def export(self, ref: str, *, passphrase: str | None) -> bytes:
        """Never: the node's operator does it."""
        raise _refused(ref)

    def import_(self, ref: str, document: bytes, *, passphrase: str | None) -> None:
        """Never: the node's operator does it."""
        raise _refused(ref)


def _refused(ref: str) -> InvalidRequest:
    return InvalidRequest(f"{ref}: {NOT_THERE}", hint="do it on the node's own machine, with --workspace")


def place_of(ref: str) -> str | None:
    """The URL of a dataset elsewhere, or of a folder that is there; None for a name."""
    if "://" in ref:
        return ref
    folder = Path(ref)
    is_path = ref.startswith((".", "/", "~")) or "/" in ref
    return folder.resolve().as_uri() if is_path and (folder / "refs").is_dir() else None

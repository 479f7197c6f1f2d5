"""Verbs of cursors on a workspace, and on a node over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    import httpx

    from odfabric.model.commit import CatalogEntry
    from odfabric.wiring import Node


class WorkspaceCursors:
    """A `CursorBackend` on a node of this process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def create(self, ref: str, consumer: str, *, start: str) -> dict[str, object]:
        """The cursor with its fence."""
        from odfabric.usecases.reading.cursors import held_value

        return held_value(self._node.cursors.create(self._resolve(ref), consumer, start=start))

    def listed(self, ref: str) -> list[dict[str, object]]:
        """All cursors of a dataset."""
        from odfabric.usecases.reading.cursors import cursor_value

        return [cursor_value(cursor) for cursor in self._node.cursors.list(self._resolve(ref))]

    def claim(self, ref: str, consumer: str, *, fence: str | None) -> dict[str, object]:
        """The cursor with a new fence."""
        from odfabric.usecases.reading.cursors import held_value

        return held_value(self._node.cursors.claim(self._resolve(ref), consumer, fence=fence))

    def fetch(self, ref: str, consumer: str, *, fence: str, limit: int | None) -> dict[str, object]:
        """What comes next."""
        return self._node.cursors.fetch(self._resolve(ref), consumer, fence=fence, limit=limit).to_value()

    def acknowledge(self, ref: str, consumer: str, *, fence: str, position: str) -> dict[str, object]:
        """The cursor as it is now."""
        from odfabric.usecases.reading.cursors import cursor_value

        entry = self._resolve(ref)
        return cursor_value(self._node.cursors.acknowledge(entry, consumer, fence=fence, position=position))

    def delete(self, ref: str, consumer: str) -> dict[str, object]:
        """What was deleted."""
        self._node.cursors.delete(self._resolve(ref), consumer)
        return {"consumer": consumer}

    def _resolve(self, ref: str) -> CatalogEntry:
        from odfabric.formats.identifiers.references import parse_dataset_ref

        return self._node.datasets.resolve(parse_dataset_ref(ref))


class Send(Protocol):
    """Sends a request to the node; raises what its problem means."""

    def __call__(self, method: str, path: str, **arguments: object) -> httpx.Response:
        """The answer, which is a success."""


class PathOf(Protocol):
    """Where the node has a dataset."""

    def __call__(self, ref: str) -> str:
        """`/account/dataset`."""


class NodeCursors:
    """A `CursorBackend` on a node reached by HTTP."""

    def __init__(self, send: Send, path_of: PathOf) -> None:
        self._send = send
        self._path_of = path_of

    def create(self, ref: str, consumer: str, *, start: str) -> dict[str, object]:
        """The cursor with its fence."""
        return self._object("POST", f"{self._path_of(ref)}/cursors", json={"consumer": consumer, "from": start})

    def listed(self, ref: str) -> list[dict[str, object]]:
        """All cursors of a dataset."""
        found: list[dict[str, object]] = self._send("GET", f"{self._path_of(ref)}/cursors").json()["cursors"]
        return found

    def claim(self, ref: str, consumer: str, *, fence: str | None) -> dict[str, object]:
        """The cursor with a new fence."""
        return self._object("POST", f"{self._cursor(ref, consumer)}/claim", json={"fence": fence})

    def fetch(self, ref: str, consumer: str, *, fence: str, limit: int | None) -> dict[str, object]:
        """What comes next."""
        return self._object("POST", f"{self._cursor(ref, consumer)}/fetch", json={"fence": fence, "limit": limit})

    def acknowledge(self, ref: str, consumer: str, *, fence: str, position: str) -> dict[str, object]:
        """The cursor as it is now."""
        return self._object("POST", f"{self._cursor(ref, consumer)}/ack", json={"fence": fence, "position": position})

    def delete(self, ref: str, consumer: str) -> dict[str, object]:
        """What was deleted."""
        self._send("DELETE", self._cursor(ref, consumer))
        return {"consumer": consumer}

    def _cursor(self, ref: str, consumer: str) -> str:
        return f"{self._path_of(ref)}/cursors/{quote(consumer, safe='')}"

    def _object(self, method: str, path: str, **arguments: object) -> dict[str, object]:
        found: dict[str, object] = self._send(method, path, **arguments).json()
        return found

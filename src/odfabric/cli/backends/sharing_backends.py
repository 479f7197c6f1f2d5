"""Verbs of repositories and pushes on a workspace, and on a node over HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

from odfabric.cli.backends.cursor_backends import PathOf, Send

if TYPE_CHECKING:
    import httpx

    from odfabric.model.commit import CatalogEntry
    from odfabric.model.jobs.job import Job
    from odfabric.wiring import Node


_FILE_URL = re.compile(r"file:(?://(?:localhost(?=/))?)?(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)


def place_written(text: str) -> str:
    """The whole URL of a folder named by a path or a relative URL, else the text.

    What is kept of it must mean the same folder to a command that runs elsewhere.
    """
    if text in (".", "..", "~") or text.startswith(("./", "../", "~/", "/")):
        return _uri(Path(text).expanduser())
    found = _FILE_URL.fullmatch(text)
    if found is None or not found[1] or found[1].startswith("/"):
        return text
    return _uri(Path(unquote(found[1])))


def _uri(folder: Path) -> str:
    return Path(os.path.abspath(folder)).as_uri()


class SharingBackend(Protocol):
    """Verbs of repositories elsewhere, and of pushes there."""

    def listed(self) -> list[dict[str, Any]]:
        """`{name, url, shared, createdAt}`, one's own first."""

    def add(self, name: str, url: str, *, shared: bool) -> dict[str, Any]:
        """The repository."""

    def remove(self, name: str, *, shared: bool) -> None:
        """Raises NotFound for a repository that is not there."""

    def search(self, name: str, words: str) -> list[dict[str, Any]]:
        """`{alias, id, kind}` of datasets of a repository."""

    def is_remote(self, ref: str) -> bool:
        """Whether a reference names a dataset elsewhere."""

    def push(self, ref: str, *, to: str | None, force: bool, public: bool = False) -> dict[str, Any]:
        """What a push to another place gives once the dataset is there.

        `{id, alias, to, head, blocks, objects, bytes, replacedBlocks, upToDate}`.
        """

    def aliases(self, ref: str) -> list[dict[str, Any]]:
        """`{kind, target}` of a dataset."""

    def forget_alias(self, ref: str, target: str) -> None:
        """Raises NotFound for an alias that is not there."""


class WorkspaceSharing:
    """A `SharingBackend` on a node of this process.

    `finish` works until a job has ended.
    """

    def __init__(self, node: Node, finish: Callable[[Job], Mapping[str, object]]) -> None:
        self._node = node
        self._finish = finish

    def listed(self) -> list[dict[str, Any]]:
        """See the protocol."""
        from odfabric.usecases.transfer.repositories import repository_value

        found = self._node.sharing.repositories.listed(by=self._node.operator)
        return [repository_value(each) for each in found]

    def add(self, name: str, url: str, *, shared: bool) -> dict[str, Any]:
        """See the protocol."""
        from odfabric.usecases.transfer.repositories import repository_value

        made = self._node.sharing.repositories.add(name, place_written(url), shared=shared, by=self._node.operator)
        return repository_value(made)

    def remove(self, name: str, *, shared: bool) -> None:
        """See the protocol."""
        self._node.sharing.repositories.remove(name, shared=shared, by=self._node.operator)

    def search(self, name: str, words: str) -> list[dict[str, Any]]:
        """See the protocol."""
        return self._node.sharing.search(name, words, by=self._node.operator)

    def is_remote(self, ref: str) -> bool:
        """See the protocol."""
        return self._node.sharing.names.is_remote(place_written(ref), self._node.operator)

    def push(self, ref: str, *, to: str | None, force: bool, public: bool = False) -> dict[str, Any]:
        """See the protocol."""
        from odfabric.model.jobs.requests import SendWish
        from odfabric.model.people.account import Visibility

        visibility = Visibility.PUBLIC if public else Visibility.PRIVATE
        wish = SendWish(to=None if to is None else place_written(to), force=force, visibility=visibility)
        return dict(self._finish(self._node.sharing.push(self._resolve(ref), wish, by=self._node.operator)))

    def aliases(self, ref: str) -> list[dict[str, Any]]:
        """See the protocol."""
        found = self._node.sharing.repositories.aliases(self._resolve(ref), by=self._node.operator)
        return [{"kind": each.kind.value, "target": each.target} for each in found]

    def forget_alias(self, ref: str, target: str) -> None:
        """See the protocol."""
        self._node.sharing.repositories.forget_alias(self._resolve(ref), target, by=self._node.operator)

    def _resolve(self, ref: str) -> CatalogEntry:
        from odfabric.formats.identifiers.references import parse_dataset_ref

        return self._node.datasets.resolve(parse_dataset_ref(ref))


class NodeSharing:
    """A `SharingBackend` on a node reached by HTTP; `finished` waits for a job."""

    def __init__(self, send: Send, path_of: PathOf, finished: Callable[[httpx.Response], Mapping[str, object]]) -> None:
        self._send = send
        self._path_of = path_of
        self._finished = finished

    def listed(self) -> list[dict[str, Any]]:
        """See the protocol."""
        found: list[dict[str, Any]] = self._send("GET", "/accounts/me/repositories").json()["repositories"]
        return found

    def add(self, name: str, url: str, *, shared: bool) -> dict[str, Any]:
        """See the protocol."""
        made: dict[str, Any] = self._send("POST", _place(shared), json={"name": name, "url": url}).json()
        return made

    def remove(self, name: str, *, shared: bool) -> None:
        """See the protocol."""
        self._send("DELETE", f"{_place(shared)}/{quote(name, safe='')}")

    def search(self, name: str, words: str) -> list[dict[str, Any]]:
        """See the protocol."""
        path = f"/accounts/me/repositories/{quote(name, safe='')}/datasets"
        found: list[dict[str, Any]] = self._send("GET", path, params={"q": words}).json()["datasets"]
        return found

    def is_remote(self, ref: str) -> bool:
        """See the protocol; the node is asked for its repositories only where they decide."""
        parts = ref.split("/")
        if "://" in ref or len(parts) == 3:
            return True
        if len(parts) != 2 or ref.startswith("did:"):
            return False
        return parts[0].lower() in {str(each["name"]).lower() for each in self.listed()}

    def push(self, ref: str, *, to: str | None, force: bool, public: bool = False) -> dict[str, Any]:
        """See the protocol."""
        wish = {"to": to, "force": force, "visibility": "public" if public else "private"}
        return dict(self._finished(self._send("POST", f"{self._path_of(ref)}/push", json=wish)))

    def aliases(self, ref: str) -> list[dict[str, Any]]:
        """See the protocol."""
        found: list[dict[str, Any]] = self._send("GET", f"{self._path_of(ref)}/aliases").json()["aliases"]
        return found

    def forget_alias(self, ref: str, target: str) -> None:
        """See the protocol."""
        self._send("DELETE", f"{self._path_of(ref)}/aliases", params={"target": target})


def _place(shared: bool) -> str:
    return "/admin/repositories" if shared else "/accounts/me/repositories"

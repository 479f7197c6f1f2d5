"""Verbs of variables on a workspace, and on a node over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from odfabric.cli.backends.cursor_backends import PathOf, Send

if TYPE_CHECKING:
    from odfabric.model.commit import CatalogEntry
    from odfabric.wiring import Node


class WorkspaceVariables:
    """A `VariableBackend` on a node of this process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def listed(self, ref: str) -> list[dict[str, Any]]:
        """All, secrets without their values."""
        from odfabric.usecases.datasets.dataset_variables import variable_value

        found = self._node.variables.listed(self._resolve(ref), by=self._node.operator)
        return [variable_value(each) for each in found]

    def set(self, ref: str, name: str, value: str, *, secret: bool) -> dict[str, Any]:
        """The variable."""
        from odfabric.usecases.datasets.dataset_variables import variable_value

        entry, by = self._resolve(ref), self._node.operator
        return variable_value(self._node.variables.set(entry, name, value, secret=secret, by=by))

    def remove(self, ref: str, name: str) -> None:
        """Raises NotFound for a variable that is not there."""
        self._node.variables.remove(self._resolve(ref), name, by=self._node.operator)

    def _resolve(self, ref: str) -> CatalogEntry:
        from odfabric.formats.identifiers.references import parse_dataset_ref

        return self._node.datasets.resolve(parse_dataset_ref(ref))


class NodeVariables:
    """A `VariableBackend` on a node reached by HTTP."""

    def __init__(self, send: Send, path_of: PathOf) -> None:
        self._send = send
        self._path_of = path_of

    def listed(self, ref: str) -> list[dict[str, Any]]:
        """All, secrets without their values."""
        found: list[dict[str, Any]] = self._send("GET", f"{self._path_of(ref)}/variables").json()["variables"]
        return found

    def set(self, ref: str, name: str, value: str, *, secret: bool) -> dict[str, Any]:
        """The variable."""
        body = {"value": value, "secret": secret}
        made: dict[str, Any] = self._send("PUT", self._path(ref, name), json=body).json()
        return made

    def remove(self, ref: str, name: str) -> None:
        """Raises NotFound for a variable that is not there."""
        self._send("DELETE", self._path(ref, name))

    def _path(self, ref: str, name: str) -> str:
        return f"{self._path_of(ref)}/variables/{quote(name, safe='')}"

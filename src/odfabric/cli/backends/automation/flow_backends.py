"""Verbs of flows on a workspace, and on a node over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odfabric.cli.backends.cursor_backends import PathOf, Send

if TYPE_CHECKING:
    from odfabric.model.commit import CatalogEntry
    from odfabric.model.identity import DatasetId
    from odfabric.wiring import Node


class WorkspaceFlows:
    """A `FlowBackend` on a node of this process.

    Runs are done by the workers of a node, not by commands.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def listed(self, ref: str | None) -> list[dict[str, Any]]:
        """The flows of a dataset, or of all."""
        from odfabric.usecases.flows.describe_flows import flow_value

        flows, by = self._node.flows, self._node.operator
        found = flows.all(by=by) if ref is None else flows.of_dataset(self._resolve(ref), by=by)
        return [flow_value(seen, named=self._named) for seen in found]

    def set(self, ref: str, kind: str, rule: Mapping[str, object]) -> dict[str, Any]:
        """The flow."""
        from odfabric.formats.manifests.flow_rule import parse_rule
        from odfabric.model.jobs.flow import FlowKind

        self._node.flows.set(self._resolve(ref), FlowKind(kind), parse_rule(rule), by=self._node.operator)
        return self._one(ref, kind)

    def change(self, ref: str, kind: str, *, paused: bool) -> dict[str, Any]:
        """The flow."""
        from odfabric.model.jobs.flow import FlowKind

        change = self._node.flows.pause if paused else self._node.flows.resume
        change(self._resolve(ref), FlowKind(kind), by=self._node.operator)
        return self._one(ref, kind)

    def remove(self, ref: str, kind: str) -> dict[str, Any]:
        """What was removed."""
        from odfabric.model.jobs.flow import FlowKind

        entry = self._resolve(ref)
        self._node.flows.remove(entry, FlowKind(kind), by=self._node.operator)
        return {"alias": str(entry.alias), "kind": kind}

    def run(self, ref: str, kind: str) -> dict[str, Any]:
        """The run."""
        from odfabric.model.jobs.flow import FlowKind

        run = self._node.flows.run_now(self._resolve(ref), FlowKind(kind), by=self._node.operator)
        return self.get_run(run.id)

    def get_run(self, run_id: str) -> dict[str, Any]:
        """A run."""
        from odfabric.usecases.flows.describe_flows import run_value

        run, _ = self._node.flows.run(run_id, by=self._node.operator)
        return run_value(run, named=self._named)

    def cancel(self, run_id: str) -> dict[str, Any]:
        """The run as it is now."""
        self._node.flows.cancel(run_id, by=self._node.operator)
        return self.get_run(run_id)

    def progress(self, job_id: str) -> Mapping[str, object]:
        """How far a job is."""
        import json

        found: Mapping[str, object] = json.loads(self._node.jobs.get(job_id).progress or "{}")
        return found

    def _one(self, ref: str, kind: str) -> dict[str, Any]:
        return next(flow for flow in self.listed(ref) if flow["kind"] == kind)

    def _named(self, dataset: DatasetId) -> str | None:
        entry = self._node.repository.find(dataset)
        return None if entry is None else str(entry.alias)

    def _resolve(self, ref: str) -> CatalogEntry:
        from odfabric.formats.identifiers.references import parse_dataset_ref

        return self._node.datasets.resolve(parse_dataset_ref(ref))


class NodeFlows:
    """A `FlowBackend` on a node reached by HTTP."""

    def __init__(self, send: Send, path_of: PathOf) -> None:
        self._send = send
        self._path_of = path_of

    def listed(self, ref: str | None) -> list[dict[str, Any]]:
        """The flows of a dataset, or of all."""
        path = "/flows" if ref is None else f"{self._path_of(ref)}/flows"
        found: list[dict[str, Any]] = self._send("GET", path).json()["flows"]
        return found

    def set(self, ref: str, kind: str, rule: Mapping[str, object]) -> dict[str, Any]:
        """The flow."""
        return self._object("PUT", f"{self._path_of(ref)}/flows/{kind}", json=rule)

    def change(self, ref: str, kind: str, *, paused: bool) -> dict[str, Any]:
        """The flow."""
        return self._object("PATCH", f"{self._path_of(ref)}/flows/{kind}", json={"paused": paused})

    def remove(self, ref: str, kind: str) -> dict[str, Any]:
        """What was removed."""
        self._send("DELETE", f"{self._path_of(ref)}/flows/{kind}")
        return {"alias": self._path_of(ref).lstrip("/"), "kind": kind}

    def run(self, ref: str, kind: str) -> dict[str, Any]:
        """The run."""
        return self._object("POST", f"{self._path_of(ref)}/flows/{kind}/runs", json={})

    def get_run(self, run_id: str) -> dict[str, Any]:
        """A run."""
        return self._object("GET", f"/runs/{run_id}")

    def cancel(self, run_id: str) -> dict[str, Any]:
        """The run as it is now."""
        return self._object("DELETE", f"/runs/{run_id}")

    def progress(self, job_id: str) -> Mapping[str, object]:
        """How far a job is."""
        return self._object("GET", f"/jobs/{job_id}").get("progress") or {}

    def _object(self, method: str, path: str, **arguments: object) -> dict[str, Any]:
        found: dict[str, Any] = self._send(method, path, **arguments).json()
        return found

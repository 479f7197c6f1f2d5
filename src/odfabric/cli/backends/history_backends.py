"""Verbs that rewrite history, on a workspace and on a node over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odfabric.cli.backends.cursor_backends import PathOf, Send

if TYPE_CHECKING:
    import httpx

    from odfabric.model.commit import CatalogEntry
    from odfabric.model.jobs.job import Job
    from odfabric.model.multihash import Multihash
    from odfabric.wiring import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactWish:
    """What a compaction makes; None: as the node is set."""

    metadata_only: bool = False
    slice_bytes_max: int | None = None
    slice_records_max: int | None = None


class HistoryBackend(Protocol):
    """Verbs that rewrite the history of a dataset."""

    def head(self, ref: str) -> str:
        """The present head."""

    def reset(self, ref: str, to: str | int, *, expected: str) -> dict[str, Any]:
        """`{id, alias, oldHead, head, blocksDropped, rowsDropped}`."""

    def compact(self, ref: str, wish: CompactWish) -> dict[str, Any]:
        """`{id, alias, oldHead, head, blocksBefore, blocksAfter, rows, upToDate}`."""

    def set_watermark(self, ref: str, watermark: str, *, force: bool) -> dict[str, Any]:
        """`{id, alias, head, watermark, upToDate}`."""

    def shown(self, ref: str) -> dict[str, Any]:
        """`{rewrites, rewrittenInputs}`."""

    def reports(self, ref: str) -> list[dict[str, Any]]:
        """Verification reports beside a dataset, newest first."""

    def publish_report(self, ref: str, data: bytes) -> dict[str, Any]:
        """The report as it is listed from now on."""


class WorkspaceHistory:
    """A `HistoryBackend` on a node of this process; `finish` works until a job ends."""

    def __init__(self, node: Node, finish: Callable[[Job], Mapping[str, object]]) -> None:
        self._node = node
        self._finish = finish

    def head(self, ref: str) -> str:
        """See the protocol."""
        return str(self._node.datasets.head(self._resolve(ref)).hash)

    def reset(self, ref: str, to: str | int, *, expected: str) -> dict[str, Any]:
        """See the protocol."""
        from odfabric.usecases.chain.block_reference import parse_block

        target = to if isinstance(to, int) else parse_block(to)
        done = self._node.history.reset(self._resolve(ref), target, expected=_hash(expected))
        self._node.background.relay_outbox()
        return done.to_value()

    def compact(self, ref: str, wish: CompactWish) -> dict[str, Any]:
        """See the protocol."""
        from odfabric.model.jobs.requests import CompactRequest

        entry = self._resolve(ref)
        request = CompactRequest(
            dataset=entry.id,
            metadata_only=wish.metadata_only,
            slice_bytes_max=wish.slice_bytes_max,
            slice_records_max=wish.slice_records_max,
        )
        return dict(self._finish(self._node.history.compact(entry, request)))

    def set_watermark(self, ref: str, watermark: str, *, force: bool) -> dict[str, Any]:
        """See the protocol."""
        from odfabric.model.instant import Instant

        entry = self._resolve(ref)
        done = self._node.history.set_watermark(entry, Instant.parse(watermark), force=force)
        return done.to_value(self._node.datasets.head(entry))

    def shown(self, ref: str) -> dict[str, Any]:
        """See the protocol."""
        entry, history = self._resolve(ref), self._node.history
        return {
            "rewrites": [rewrite.to_value() for rewrite in history.rewrites(entry)],
            "rewrittenInputs": [one.to_value() for one in history.rewritten_inputs(entry)],
        }

    def reports(self, ref: str) -> list[dict[str, Any]]:
        """See the protocol."""
        return [one.to_value() for one in self._node.reports.of_dataset(self._resolve(ref))]

    def publish_report(self, ref: str, data: bytes) -> dict[str, Any]:
        """See the protocol."""
        return self._node.reports.publish(self._resolve(ref), data).to_value()

    def _resolve(self, ref: str) -> CatalogEntry:
        from odfabric.formats.identifiers.references import parse_dataset_ref

        return self._node.datasets.resolve(parse_dataset_ref(ref))


class NodeHistory:
    """A `HistoryBackend` on a node reached by HTTP; `finished` waits for a job."""

    def __init__(self, send: Send, path_of: PathOf, finished: Callable[[httpx.Response], Mapping[str, object]]) -> None:
        self._send = send
        self._path_of = path_of
        self._finished = finished

    def head(self, ref: str) -> str:
        """See the protocol."""
        return str(self._send("GET", f"{self._path_of(ref)}/refs/head").text)

    def reset(self, ref: str, to: str | int, *, expected: str) -> dict[str, Any]:
        """See the protocol."""
        body = {"toSequence": to} if isinstance(to, int) else {"to": to}
        answer = self._send("POST", f"{self._path_of(ref)}/reset", json=body, headers={"if-match": expected})
        return dict(answer.json())

    def compact(self, ref: str, wish: CompactWish) -> dict[str, Any]:
        """See the protocol."""
        body = {
            "metadataOnly": wish.metadata_only,
            "sliceBytesMax": wish.slice_bytes_max,
            "sliceRecordsMax": wish.slice_records_max,
        }
        return dict(self._finished(self._send("POST", f"{self._path_of(ref)}/compact", json=body)))

    def set_watermark(self, ref: str, watermark: str, *, force: bool) -> dict[str, Any]:
        """See the protocol."""
        body = {"watermark": watermark, "force": force}
        return dict(self._send("PUT", f"{self._path_of(ref)}/watermark", json=body).json())

    def shown(self, ref: str) -> dict[str, Any]:
        """See the protocol."""
        return dict(self._send("GET", f"{self._path_of(ref)}/history").json())

    def reports(self, ref: str) -> list[dict[str, Any]]:
        """See the protocol."""
        found: list[dict[str, Any]] = self._send("GET", f"{self._path_of(ref)}/reports").json()["reports"]
        return found

    def publish_report(self, ref: str, data: bytes) -> dict[str, Any]:
        """See the protocol."""
        headers = {"content-type": "application/json"}
        return dict(self._send("POST", f"{self._path_of(ref)}/reports", content=data, headers=headers).json())


def _hash(text: str) -> Multihash:
    from odfabric.formats.identifiers.multihash import parse_multihash

    return parse_multihash(text)

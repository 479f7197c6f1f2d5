"""Ask other nodes where a trace ends because inputs are not here.

The node that a dataset was pulled from is asked why its records are there. Invariants: what it says is marked as its claim and contradicts
no block on this node; whatever goes wrong is the named end of that branch alone; of datasets on this node the caller gets what they may
read here. Only accounts may have nodes asked; with this node's key only those who may pull from elsewhere. Nodes, hops, bytes and seconds
are bounded. Not here: where to check a claim (`cli.provenance.why_check`), what an answer must look like (`peer_answer`, `check_claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from odfabric.domain.people.access import Action, Subject, Verdict
from odfabric.domain.provenance.trace import EndReason
from odfabric.domain.transfer.direction import scheme_of, without_smart_prefix
from odfabric.errors import (
    AccessDenied,
    ChainsDiverged,
    CorruptedSource,
    External,
    LimitExceeded,
    NotFound,
    OdfError,
    Unauthenticated,
)
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.provenance.question import question_value
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.model.provenance import ProvenanceKind
from odfabric.model.transfer.repository import AliasKind
from odfabric.model.why_request import WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric.ports.transfer.nodes import QueuedAnswer
from odfabric.usecases.provenance.check_claims import Claims, Record, checked_claims
from odfabric.usecases.provenance.peer_answer import PeerAnswer, read_peer_answer
from odfabric.usecases.provenance.trace_records import Trace, TracePorts, Visited, WhyAsked
from odfabric.usecases.rights.access import Access
from odfabric.usecases.transfer.remote_names import RemoteNames

_SCHEMES = ("http", "https", "odf+http", "odf+https")
_REASONS: Mapping[type[OdfError], EndReason] = {
    LimitExceeded: EndReason.PEER_LIMIT,
    External: EndReason.PEER_AWAY,
    CorruptedSource: EndReason.PEER_INVALID,
    ChainsDiverged: EndReason.PEER_DIFFERS,
}
"""By error; any other is a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """Limits of asking other nodes for one answer; see the settings of these names."""

    peers_max: int
    hops_max: int
    s_max: float
    job_s_max: float
    bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPorts:
    """What asking other nodes works with, for one subject."""

    subject: Subject
    access: Access
    names: RemoteNames
    limits: PeerLimits


@dataclass(frozen=True, slots=True)
class _Group:
    """Records of one dataset and depth whose explanation is asked for together."""

    visited: Sequence[Visited]
    is_cause: bool

    @property
    def depth(self) -> int:
        return self.visited[0].depth


class _NotAsked(Exception):
    """No node is asked, or waited for any longer, and why."""

    def __init__(self, reason: EndReason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class _Stopped(Exception):
    """The listener wants no answer any more: no end of a branch."""

    def __init__(self, error: OdfError) -> None:
        super().__init__()
        self.error = error


def ask_peers(
    document: dict[str, Any],
    request: WhyRequest,
    asked: WhyAsked,
    trace: Trace,
    *,
    ports: TracePorts,
    peers: PeerPorts,
    progress: ProgressListener,
) -> None:
    """Continue the branches of an answer that end because inputs are not here.

    Changes `document`. Raises what `progress` raises.
    """
    groups = list(_groups(trace))
    at = 0

    def waiting() -> None:
        try:
            progress(EngineProgress(stage="peers", done=at, total=len(groups)))
        except OdfError as error:
            raise _Stopped(error) from None

    asking = _Asking(document, request, asked, trace, ports, peers, waiting)
    try:
        for at, group in enumerate(groups):  # noqa: B007 - `waiting` reports it
            waiting()
            asking.continue_branches(group)
    except _Stopped as stopped:
        raise stopped.error from None


def is_elsewhere(request: WhyRequest, trace: Trace) -> bool:
    """Whether another node explains all records that were asked for.

    Then pages of the answer are its pages.
    """
    first = [one for one in trace.visited if one.depth == 0]
    return request.peers and all(one.end is not None and one.end.reason is EndReason.NOT_HERE for one in first)


def _groups(trace: Trace) -> Iterator[_Group]:
    found: dict[tuple[object, int, bool], list[Visited]] = {}
    for one in trace.visited:
        if one.end is not None and one.end.reason is EndReason.NOT_HERE:
            found.setdefault((one.ref.dataset, one.depth, one.ref in trace.causes), []).append(one)
    for (_, _, is_cause), visited in found.items():
        yield _Group(visited, is_cause)


class _Asking:
    """Other nodes being asked for one answer."""

    def __init__(
        self,
        document: dict[str, Any],
        request: WhyRequest,
        asked: WhyAsked,
        trace: Trace,
        ports: TracePorts,
        peers: PeerPorts,
        waiting: Callable[[], None],
    ) -> None:
        self._document, self._request, self._trace = document, request, trace
        self._ports, self._peers, self._waiting = ports, peers, waiting
        limits = ports.limits
        self._depth_max = limits.depth_max if asked.depth is None else min(asked.depth, limits.depth_max)
        self._kinds, self._columns = asked.kinds, asked.columns
        self._records: list[Record] = document["records"]
        self._datasets: dict[str, Any] = document["datasets"]
        self._by_ref: dict[tuple[str, int], Record] = {(one["dataset"], one["offset"]): one for one in self._records}
        self._count = 0
        self._left_s, self._left_job_s = peers.limits.s_max, peers.limits.job_s_max

    def continue_branches(self, group: _Group) -> None:
        """Ask for a group of records, and put claims or ends into the document."""
        entry = self._ports.repository.resolve(group.visited[0].ref.dataset)
        url = None
        try:
            url = self._place(entry)
            answer = self._answer(url, group)
            claims = checked_claims(
                answer,
                group.visited,
                depth=self._depth_max - group.depth,
                with_values=self._request.values,
                repository=self._ports.repository,
            )
        except _NotAsked as error:
            self._end(group, error.reason, error.message, url)
        except OdfError as error:
            reason = next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), None)
            self._end(group, reason or EndReason.PEER_REFUSED, _said(error), url)
        else:
            self._merge(group, claims, answer, url)

    def _place(self, entry: CatalogEntry) -> str:
        """URL of the dataset where it was pulled from, or pushed to."""
        peers, subject = self._peers, self._peers.subject
        if peers.access.verdict(subject, Action.FOLLOW, entry) is not Verdict.ALLOWED:
            raise _NotAsked(EndReason.PEER_NOT_ASKED, "other nodes are asked for accounts alone: log in")
        if self._request.hops >= peers.limits.hops_max:
            raise _NotAsked(
                EndReason.PEER_LIMIT, f"the question came through {self._request.hops} nodes: it is asked no further"
            )
        targets = [] if entry.remote_url is None else [entry.remote_url]
        targets += [alias.target for alias in peers.names.repositories.aliases(entry.id, AliasKind.PUSH)]
        for target in targets:
            url = peers.names.source_url(target, subject)
            if scheme_of(url) in _SCHEMES:
                return url
        raise _NotAsked(EndReason.PEER_NOT_ASKED, "the dataset came from no node that can be asked: pull its inputs")

    def _answer(self, url: str, group: _Group) -> PeerAnswer:
        limits, nodes = self._peers.limits, self._peers.names.nodes
        if self._count >= limits.peers_max or self._left_s <= 0:
            name = "provenance_peers_max" if self._count >= limits.peers_max else "provenance_peer_s_max"
            raise _NotAsked(EndReason.PEER_LIMIT, f"no further node is asked for this answer (limit {name})")
        self._count += 1
        with_key = self._may_use_key() and nodes.has_key(url)
        began_ns = self._ports.clock.now().epoch_ns
        try:
            value = nodes.why(
                url,
                question_value(self._question(group, asks_on=with_key)),
                with_key=with_key,
                seconds_max=self._left_s,
                bytes_max=limits.bytes_max,
            )
        finally:
            self._left_s -= self._seconds_since(began_ns)
        if isinstance(value, QueuedAnswer):
            value = self._found_later(url, value, with_key=with_key)
        return read_peer_answer(value, records_max=self._ports.limits.records_max)

    def _found_later(self, url: str, queued: QueuedAnswer, *, with_key: bool) -> object:
        """What a job of the other node finds, if it ends in time."""
        began_ns = self._ports.clock.now().epoch_ns
        try:
            value = self._peers.names.nodes.queued_why(
                url,
                queued,
                with_key=with_key,
                seconds_max=max(self._left_job_s, 0.0),
                bytes_max=self._peers.limits.bytes_max,
                waiting=self._waiting,
            )
        finally:
            self._left_job_s -= self._seconds_since(began_ns)
        if value is None:
            raise _NotAsked(
                EndReason.PEER_WORKS,
                "the node that it came from still works on the answer: ask again in a while (limit provenance_peer_job_s_max)",
            )
        return value

    def _seconds_since(self, began_ns: int) -> float:
        return (self._ports.clock.now().epoch_ns - began_ns) / NANOS_PER_SECOND

    def _may_use_key(self) -> bool:
        """Who may pull from elsewhere reads there with this node's key anyway."""
        subject = self._peers.subject
        if subject.account is None:
            return False
        policy = self._peers.access.policy
        return policy.decide_here(subject, Action.CREATE, under=subject.account.name) is Verdict.ALLOWED

    def _question(self, group: _Group, *, asks_on: bool) -> WhyRequest:
        kinds = self._kinds if group.is_cause else self._kinds - {ProvenanceKind.TRIGGER} or self._kinds
        found = set[str]().union(*(self._trace.columns.get(one.ref, set()) for one in group.visited))
        hops = self._request.hops + 1
        return replace(
            self._request,
            offsets=tuple(one.ref.offset for one in group.visited),
            columns=tuple(sorted(found)) if group.depth else self._columns,
            kinds=tuple(kind.name.lower() for kind in ProvenanceKind if kind in kinds),
            depth=str(self._depth_max - group.depth),
            after=self._request.after if self._is_paged(group) else None,
            peers=asks_on and hops < self._peers.limits.hops_max,
            hops=hops,
        )

    def _is_paged(self, group: _Group) -> bool:
        """Whether the other node's pages are those of this answer."""
        return group.depth == 0 and is_elsewhere(self._request, self._trace)

    def _end(self, group: _Group, reason: EndReason, message: str, url: str | None) -> None:
        for one in group.visited:
            end = self._by_ref[str(one.ref.dataset), one.ref.offset]["end"]
            end |= {"reason": reason.value, "message": message}
            if url is not None:
                end["peer"] = _node_of(url)

    def _merge(self, group: _Group, claims: Claims, answer: PeerAnswer, url: str) -> None:
        node = _node_of(url)
        for offset, said in claims.asked.items():
            own = self._by_ref[str(group.visited[0].ref.dataset), offset]
            del own["end"]
            own |= {name: said[name] for name in ("why", "end") if name in said}
            own["claimedBy"] = [node, *said.get("claimedBy", ())]
            if not self._is_paged(group) and any(rows["leftOut"] for rows in _rows_of(own)):
                own["further"] = f"{without_smart_prefix(url).rstrip('/')}/-/why?offset={offset}"
            self._redact(own)
        if self._is_paged(group):
            self._document["next"] = answer.next
        for said in claims.behind:
            ref = (said["dataset"], said["offset"])
            if ref in self._by_ref or self._hidden(said["dataset"]):
                continue  # what this node has found itself is better
            said["depth"] += group.depth
            said["claimedBy"] = [node, *said.get("claimedBy", ())]
            self._redact(said)
            self._records.append(said)
            self._by_ref[ref] = said
            self._name(said["dataset"], answer, said["claimedBy"])
        self._document["leftOut"] += answer.left_out

    def _name(self, dataset: str, answer: PeerAnswer, claimants: Sequence[str]) -> None:
        if dataset in self._datasets:
            return
        entry = self._ports.seen.find(parse_dataset_id(dataset))
        if entry is not None:
            value: Record = {"alias": str(entry.alias), "kind": entry.kind.value, "remote": entry.remote_url}
        elif dataset in answer.names:
            value = {"alias": answer.names[dataset], "remote": None, "claimedBy": list(claimants)}
        else:
            return
        self._datasets[dataset] = value

    def _hidden(self, dataset: str) -> bool:
        """Whether a dataset is here, and the caller may not read it."""
        parsed = parse_dataset_id(dataset)
        return self._ports.repository.find(parsed) is not None and self._ports.seen.find(parsed) is None

    def _redact(self, one: Record) -> None:
        """Take away what the caller may not read here, also if another node shows it."""
        why = one.get("why")
        hidden = [each for each in _rows_of(one) if self._hidden(each["dataset"])]
        if why is None or not hidden:
            return
        for each in hidden:
            each["ranges"] = []
            each["end"] = {
                "reason": EndReason.NOT_READABLE.value,
                "message": "you may not read this dataset; the answer has only the number of its records",
            }
        inputs = {each["input"] for each in hidden}
        why["cells"] = [cell for cell in why["cells"] if cell["input"] not in inputs]
        why["notes"], why["how"] = [], None


def _rows_of(one: Record) -> list[Record]:
    why = one.get("why")
    return [] if why is None else [*why["witnesses"], *why["trigger"]]


def _node_of(url: str) -> str:
    """The node of a dataset's URL, which ends with account and name."""
    return without_smart_prefix(url).rstrip("/").rsplit("/", 2)[0]


def _said(error: OdfError) -> str:
    if isinstance(error, NotFound | AccessDenied | Unauthenticated):
        return f"the node that it came from does not show the records to this one: {error.message}"
    return f"the node that it came from gave no usable answer: {error.message}"

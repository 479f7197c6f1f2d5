"""Ask why records of a dataset are there: check what is asked, trace, answer.

Invariant: a caller who may read a dataset's rows may ask why they are there; of its inputs the answer has what they may read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.transform.transform_plan import transform_inputs
from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.provenance import ProvenanceEffort, ProvenanceKind
from odfabric.model.why_request import ALL_KINDS, WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.ask_peers import PeerPorts, ask_peers, is_elsewhere
from odfabric.usecases.provenance.provenance_document import WhyCursor, parse_why_cursor, why_document
from odfabric.usecases.provenance.trace_records import TraceLimits, TracePorts, WhyAsked, trace_records


def ask_why(
    entry: CatalogEntry,
    request: WhyRequest,
    *,
    ports: TracePorts,
    progress: ProgressListener,
    peers: PeerPorts | None = None,
) -> dict[str, object]:
    """The answer as a JSON value.

    Other nodes are asked if the request says so and there are `peers`.

    Raises InvalidRequest, LimitExceeded, NotFound for an offset that is not there, Determinate if the engine is away, Corrupt.
    """
    after = None if request.after is None else parse_why_cursor(request.after)
    asked = question_of(entry, request, ports=ports)
    trace = trace_records(entry.id, asked, ports=ports, progress=progress)
    # A page of an answer that another node gives has that node's cursor, which it checks.
    own = None if peers is not None and is_elsewhere(request, trace) else after
    document = why_document(entry, asked, trace, seen=ports.seen, values=request.values, after=own)
    if request.peers and peers is not None:
        ask_peers(document, request, asked, trace, ports=ports, peers=peers, progress=progress)
    return document


def question_of(entry: CatalogEntry, request: WhyRequest, *, ports: TracePorts) -> WhyAsked:
    """What is asked, checked against limits and columns.

    Raises InvalidRequest, LimitExceeded.
    """
    after = None if request.after is None else parse_why_cursor(request.after)
    asked = _checked(request, after, ports.limits)
    _, state = ports.repository.current(entry.id)
    known = _columns(state)
    for name in asked.columns:
        if name not in known:
            raise InvalidRequest(
                f"the dataset has no column `{name}`",
                place=Place(field="columns"),
                hint=_near(name, known)
                or _of_input(name, state, ports.seen)
                or f"its columns: {', '.join(known[:20])}",
            )
    return asked


def _checked(request: WhyRequest, after: WhyCursor | None, limits: TraceLimits) -> WhyAsked:
    if not request.offsets:
        raise InvalidRequest("no record is asked for", place=Place(field="offset"), hint="offset=17")
    if min(request.offsets) < 0:
        raise InvalidRequest("offsets are not negative", place=Place(field="offset"))
    most = limits.records_max
    if len(request.offsets) > most:
        raise LimitExceeded(
            "too many records", limit="provenance_records_max", maximum=most, place=Place(field="offsets")
        )
    if request.limit > most:
        raise LimitExceeded("too many rows", limit="provenance_records_max", maximum=most, place=Place(field="limit"))
    if request.limit < 1:
        raise InvalidRequest("a page has at least one row", place=Place(field="limit"))
    asked = WhyAsked(
        offsets=tuple(dict.fromkeys(request.offsets)),
        columns=tuple(dict.fromkeys(request.columns)),
        kinds=frozenset(_kind(word) for word in request.kinds),
        effort=_effort(request.effort),
        depth=_depth(request.depth),
        limit=request.limit,
        whole=request.whole,
    )
    return asked if after is None else replace(asked, skip=after.skip)


def _kind(word: str) -> ProvenanceKind:
    for kind in ProvenanceKind:
        if kind.name.lower() == word.strip().lower():
            return kind
    raise InvalidRequest(f"Unknown kind '{word}'", place=Place(field="kinds"), hint=f"some of {ALL_KINDS}")


def _effort(word: str) -> ProvenanceEffort:
    for effort in ProvenanceEffort:
        if effort.name.lower() == word.lower():
            return effort
    known = ", ".join(effort.name.lower() for effort in ProvenanceEffort)
    raise InvalidRequest(f"Unknown effort '{word}'", place=Place(field="effort"), hint=f"one of {known}")


def _depth(word: str) -> int | None:
    if word.lower() == "all":
        return None
    if not word.isascii() or not word.isdecimal() or len(word) > 3:
        raise InvalidRequest(
            f"Unknown depth '{word}'", place=Place(field="depth"), hint="a number of datasets, or `all`"
        )
    return int(word)


def _columns(state: ChainState) -> list[str]:
    schema, vocabulary = current_schema(state) or DataSchema(fields=()), state.vocabulary
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    return [each.name for each in schema.fields if each.name not in given]


def _near(name: str, known: Sequence[str]) -> str | None:
    near = get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else None


def _of_input(name: str, state: ChainState, seen: Repository) -> str | None:
    """Which input that the caller sees has a column that the query drops."""
    for dataset in () if state.transform is None else transform_inputs(state):
        entry = seen.find(dataset)
        if entry is not None and name in _columns(seen.current(dataset)[1]):
            return (
                f"its input {entry.alias} has it, and the query drops it: ask without the column to see what it decides"
            )
    return None

"""Table functions over datasets: what a call reads, and who may call.

Owns the functions `as_at`, `as_of`, `to_table`, `changes` and `why`; a further one is a handler in `_FUNCTIONS` and its form in
`formats.engine_messages.table_calls`. Invariant: a dataset that the caller may not read is refused as one that is not there, and a call
reads nothing after the block to which the query pins its dataset. What is wrong with a call is kept as its refusal: whether its text is a
call at all, and where, is the parser's to say. Not here: what rows are (`domain.chain.projection`). Source: docs/reference/time.md,
docs/reference/why.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.projection import projection_keys
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.errors import InvalidInput, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.engine_messages.table_calls import TABLE_FUNCTIONS, calls_in
from odfabric.formats.identifiers.moments import parse_event_moment, parse_system_moment
from odfabric.formats.provenance.why_table import WhyRow
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.table_function import CallRefusal, Projection, TableCall
from odfabric.model.why_request import WhyRequest
from odfabric.usecases.chain.moments import block_at, state_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.read_state import check_event_time

CALLS_MAX = 20
"""Different calls of one query: each may read a dataset of its own."""
WHY_CALLS_MAX = 5
"""Different calls of `why` in one query: each is a trace, and together they take the time of one."""

Find = Callable[[str], tuple[CatalogEntry, Multihash]]
"""The dataset of a name in a query, and the last block up to which it is read.

Raises NotFound, InvalidName.
"""


Explain = Callable[[CatalogEntry, WhyRequest, BlockRow], Sequence[WhyRow]]
"""Why a record of a dataset is there, which is read up to a block; nothing is followed further than the limits of a trace allow.

Raises NotFound, InvalidInput, LimitExceeded, Determinate if the engine is away, Corrupt.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlices:
    """Records of a dataset after block `after` up to `block`, or their rows."""

    entry: CatalogEntry
    block: BlockRow
    state: ChainState
    after: Multihash | None = None
    projection: Projection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedRows:
    """Rows that are computed from a dataset up to `block` before the query runs."""

    entry: CatalogEntry
    block: BlockRow
    rows: Sequence[WhyRow]


CallTable = ReadSlices | ComputedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """What handlers work with.

    `as_of` is the moment of the whole query; `explain` sees as much as `repository` does.
    """

    repository: Repository
    find: Find
    as_of: Instant | None
    explain: Explain


def calls_of(sql: str) -> tuple[TableCall, ...]:
    """The different calls in a text. Raises LimitExceeded."""
    found = tuple(dict.fromkeys(each.call for each in calls_in(sql)))
    if len(found) > CALLS_MAX:
        raise LimitExceeded("too many calls of table functions", limit="query_calls", maximum=CALLS_MAX)
    if sum(map(is_why, found)) > WHY_CALLS_MAX:
        message = "too many calls of why: POST /{account}/{dataset}/why asks of many records at once"
        raise LimitExceeded(message, limit="query_why_calls", maximum=WHY_CALLS_MAX)
    return found


def is_why(call: TableCall) -> bool:
    """Whether a call asks why a record is there, which is answered first."""
    return call.name == _WHY


def without_calls(sql: str) -> str:
    """The text without its calls: the datasets that it names elsewhere."""
    kept, position = [], 0
    for each in calls_in(sql):
        kept.append(sql[position : each.begin])
        position = each.end
    return " ".join([*kept, sql[position:]])


def resolved(call: TableCall, given: Calling) -> CallTable | CallRefusal:
    """What a call reads, or why it reads nothing.

    Raises Corrupt, and Determinate if the engine is away.
    """
    hint = f"write {TABLE_FUNCTIONS[call.name]}"
    least, most, handler = _FUNCTIONS[call.name]
    if not least <= len(call.arguments) <= most:
        return CallRefusal(f"{call.name} has {_counted(least, most)}, not {len(call.arguments)}", hint)
    try:
        return handler(call.arguments, given)
    except (NotFound, InvalidInput, LimitExceeded) as error:
        return CallRefusal(f"{call.name}: {error.message}", error.hint or hint)


def projection_of(state: ChainState, as_of: Instant | None) -> Projection:
    """The projection of a dataset to rows.

    Raises InvalidRequest for an event time that is no time.
    """
    schema = current_schema(state)
    keys = projection_keys(state)
    if schema is not None:
        if as_of is not None:
            check_event_time(schema, state.vocabulary.event_time, field="asOf")
        if not set(keys) <= {field.name for field in schema.fields}:
            keys = ()
    return Projection(keys=keys, as_of=as_of)


def _to_table(arguments: tuple[str, ...], given: Calling) -> ReadSlices:
    return _rows(arguments[0], None, given.as_of, given)


def _as_at(arguments: tuple[str, ...], given: Calling) -> ReadSlices:
    return _rows(arguments[0], arguments[1], given.as_of, given)


def _as_of(arguments: tuple[str, ...], given: Calling) -> ReadSlices:
    moment = parse_event_moment(arguments[1], field="as_of")
    return _rows(arguments[0], arguments[2] if len(arguments) > 2 else None, moment, given)


def _changes(arguments: tuple[str, ...], given: Calling) -> ReadSlices:
    if given.as_of is not None:
        raise InvalidRequest("changes are records, asOf gives rows", hint="leave out asOf, and compare the event time")
    entry, head = given.find(arguments[0])
    last = _block(entry, arguments[2] if len(arguments) > 2 else None, head, given)
    first = _block_before(entry, arguments[1], head, given)
    if first is not None and first.sequence_number > last.sequence_number:
        raise InvalidRequest(
            f"the first moment is block {first.sequence_number}, the second block {last.sequence_number}",
            hint="write the earlier moment first",
        )
    state = state_at(entry, last, repository=given.repository)
    return ReadSlices(entry=entry, block=last, state=state, after=None if first is None else first.hash)


def _why(arguments: tuple[str, ...], given: Calling) -> ComputedRows:
    if given.as_of is not None:
        raise InvalidRequest("why is asked of records, asOf gives rows", hint="leave out asOf")
    name, offset, column, depth = (*arguments, *_WHY_DEFAULTS[len(arguments) :])
    if not offset.isascii() or not offset.isdecimal():
        raise InvalidRequest(f"'{offset}' is no offset of a record", hint="write its number, as in why('d', 17)")
    entry, head = given.find(name)
    block = block_at(entry, None, repository=given.repository, head=head)
    asked = WhyRequest(
        offsets=(int(offset),),
        columns=(column,) if column else (),
        kinds=("witnesses", "trigger", "cells"),
        depth=depth,
    )
    return ComputedRows(entry=entry, block=block, rows=given.explain(entry, asked, block))


def _rows(name: str, at: str | None, as_of: Instant | None, given: Calling) -> ReadSlices:
    entry, head = given.find(name)
    block = _block(entry, at, head, given)
    state = state_at(entry, block, repository=given.repository)
    return ReadSlices(entry=entry, block=block, state=state, projection=projection_of(state, as_of))


def _block(entry: CatalogEntry, at: str | None, head: Multihash, given: Calling) -> BlockRow:
    moment = None if at is None else parse_system_moment(at, field="asAt")
    return block_at(entry, moment, repository=given.repository, head=head)


def _block_before(entry: CatalogEntry, at: str, head: Multihash, given: Calling) -> BlockRow | None:
    """The block of a moment, None for a time before the first block."""
    moment = parse_system_moment(at, field="asAt")
    try:
        return block_at(entry, moment, repository=given.repository, head=head)
    except NotFound:
        if isinstance(moment, Instant):
            return None
        raise


def _counted(least: int, most: int) -> str:
    return f"{least} arguments" if least == most else f"{least} to {most} arguments"


_WHY = "why"
_WHY_DEFAULTS = ("", "", "", "all")
"""Dataset, offset, column and depth."""

_FUNCTIONS: Mapping[str, tuple[int, int, Callable[[tuple[str, ...], Calling], CallTable]]] = {
    "as_at": (2, 2, _as_at),
    "as_of": (2, 3, _as_of),
    "changes": (2, 3, _changes),
    "to_table": (1, 1, _to_table),
    _WHY: (2, 4, _why),
}
"""By name: the fewest and the most arguments, and the handler."""

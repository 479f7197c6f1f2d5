"""Table functions on the wire: calls, projections, refusals.

Source: proto/odfabric/engine/v1/engine.proto.
"""

from __future__ import annotations

from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.instant import Instant
from odfabric.model.table_function import CallRefusal, Projection, TableCall


def call_to_wire(call: TableCall | None) -> pb.TableCall | None:
    """A call, if there is one."""
    return None if call is None else pb.TableCall(name=call.name, arguments=call.arguments)


def call_of(message: pb.QueryInput) -> TableCall | None:
    """The call of an input, if there is one."""
    return TableCall(message.call.name, tuple(message.call.arguments)) if message.HasField("call") else None


def projection_to_wire(projection: Projection | None) -> pb.Projection | None:
    """A projection, if there is one.

    Moments are cut to milliseconds, as rows hold them.
    """
    if projection is None:
        return None
    as_of_ms = None if projection.as_of is None else projection.as_of.millis
    return pb.Projection(keys=projection.keys, as_of_ms=as_of_ms, rows_path=projection.rows_path)


def projection_of(message: pb.QueryInput) -> Projection | None:
    """The projection of an input, if there is one."""
    if not message.HasField("projection"):
        return None
    found = message.projection
    moment = Instant.from_millis(found.as_of_ms) if found.HasField("as_of_ms") else None
    rows_path = found.rows_path if found.HasField("rows_path") else None
    return Projection(keys=tuple(found.keys), as_of=moment, rows_path=rows_path)


def refusal_to_wire(refusal: CallRefusal | None) -> pb.CallRefusal | None:
    """A refusal, if there is one."""
    return None if refusal is None else pb.CallRefusal(message=refusal.message, hint=refusal.hint)


def refusal_of(message: pb.QueryInput) -> CallRefusal | None:
    """The refusal of an input, if there is one."""
    return CallRefusal(message.refusal.message, message.refusal.hint) if message.HasField("refusal") else None

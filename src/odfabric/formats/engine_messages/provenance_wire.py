"""Provenance as messages of the engine's protocol.

Owns request and answer of DeriveProvenance on the wire. Invariant: value -> message -> value is the identity, and a message that is not
the form of a value is refused (InvalidRequest). Not here: the transaction within a request (`engine_wire`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

from odfabric.errors import InvalidRequest
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.formats.json_values.canonical_json import canonical_json
from odfabric.formats.manifests.manifest_events import noun_to_value
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.operation import OperationType
from odfabric.model.provenance import (
    ConsumedInterval,
    InputWitnesses,
    ProvenanceCost,
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceRequest,
    ProvenanceResult,
    RecordProvenance,
    RowsRead,
)

EnumT = TypeVar("EnumT", bound=Enum)


def provenance_request_to_wire(request: ProvenanceRequest) -> pb.DeriveProvenanceRequest:
    """Records to be explained."""
    return pb.DeriveProvenanceRequest(
        transaction=wire.transform_request_to_wire(request.transaction),
        intervals=[
            pb.ConsumedInterval(offsets=wire.range_to_wire(one.offsets), steps_before=one.steps_before)
            for one in request.intervals
        ],
        output=wire.slices_to_wire(request.output),
        offsets=request.offsets,
        columns=request.columns,
        kinds=[pb.ProvenanceKind.ValueType(kind.value) for kind in sorted(request.kinds)],
        effort=pb.ProvenanceEffort.ValueType(request.effort.value),
        rows_max=request.rows_max,
        evaluations_max=request.evaluations_max,
        bytes_in_hand_max=request.bytes_in_hand_max,
        wall_ms_max=request.wall_ms_max or 0,
        answer_path=request.answer_path,
        previous_transform_json=None if request.previous is None else canonical_json(noun_to_value(request.previous)),
    )


def provenance_request_from_wire(message: pb.DeriveProvenanceRequest) -> ProvenanceRequest:
    """Records to be explained. Raises InvalidRequest, InvalidManifest, InvalidName."""
    if len(message.intervals) != len(message.transaction.inputs):
        raise InvalidRequest("provenance needs one interval for each input of the transaction")
    effort = message.effort or ProvenanceEffort.VERIFIED.value
    return ProvenanceRequest(
        transaction=wire.transform_request_from_wire(message.transaction),
        intervals=tuple(
            ConsumedInterval(offsets=wire.range_from_wire(one.offsets), steps_before=one.steps_before)
            for one in message.intervals
        ),
        output=wire.slices_from_wire(message.output),
        offsets=tuple(message.offsets),
        answer_path=message.answer_path,
        columns=tuple(message.columns),
        kinds=frozenset(_member(ProvenanceKind, kind, "kind of provenance") for kind in message.kinds)
        or frozenset({ProvenanceKind.WITNESSES}),
        effort=_member(ProvenanceEffort, effort, "effort"),
        rows_max=message.rows_max,
        evaluations_max=message.evaluations_max,
        bytes_in_hand_max=message.bytes_in_hand_max,
        wall_ms_max=message.wall_ms_max or None,
        previous=wire.transform_in(message, "previous_transform_json"),
    )


def provenance_result_to_wire(result: ProvenanceResult) -> pb.DeriveProvenanceSuccess:
    """What is known of records."""
    cost = result.cost
    return pb.DeriveProvenanceSuccess(
        records=[_record_to_wire(record) for record in result.records],
        cost=pb.ProvenanceCost(
            read=cost.read.value,
            rows_read=cost.rows_read,
            rows_bound=cost.rows_bound,
            jobs=cost.jobs,
            evaluations=cost.evaluations,
        ),
        made_by=None if result.made_by is None else wire.identity_to_wire(result.made_by),
        answer_rows=result.answer_rows,
    )


def provenance_result_from_wire(message: pb.DeriveProvenanceSuccess) -> ProvenanceResult:
    """What is known of records. Raises InvalidRequest."""
    cost = message.cost
    return ProvenanceResult(
        records=tuple(_record_from_wire(record) for record in message.records),
        cost=ProvenanceCost(
            read=_member(RowsRead, cost.read, "way of reading"),
            rows_read=cost.rows_read,
            rows_bound=cost.rows_bound,
            jobs=cost.jobs,
            evaluations=cost.evaluations,
        ),
        answer_rows=message.answer_rows,
        made_by=wire.identity_from_wire(message.made_by) if message.HasField("made_by") else None,
    )


def _record_to_wire(record: RecordProvenance) -> pb.RecordProvenance:
    return pb.RecordProvenance(
        offset=record.offset,
        op=record.op.value,
        found=record.found,
        alternatives=record.alternatives,
        verified=record.verified,
        minimal=record.minimal,
        by_watermark=record.by_watermark,
        witnesses=_witnesses_to_wire(record.witnesses),
        trigger=_witnesses_to_wire(record.trigger),
        notes=record.notes,
        how_json=record.how,
        answer_rows=wire.range_to_wire(record.answer_rows),
    )


def _record_from_wire(message: pb.RecordProvenance) -> RecordProvenance:
    return RecordProvenance(
        offset=message.offset,
        op=_member(OperationType, message.op, "operation"),
        found=message.found,
        alternatives=message.alternatives,
        verified=message.verified,
        minimal=message.minimal,
        by_watermark=message.by_watermark,
        witnesses=_witnesses_from_wire(message.witnesses),
        trigger=_witnesses_from_wire(message.trigger),
        notes=tuple(message.notes),
        how=message.how_json,
        answer_rows=wire.range_from_wire(message.answer_rows),
    )


def _witnesses_to_wire(found: Sequence[InputWitnesses]) -> list[pb.InputWitnesses]:
    return [
        pb.InputWitnesses(
            input=one.input, count=one.count, ranges=[wire.range_to_wire(each) for each in one.ranges], more=one.more
        )
        for one in found
    ]


def _witnesses_from_wire(messages: Sequence[pb.InputWitnesses]) -> tuple[InputWitnesses, ...]:
    return tuple(
        InputWitnesses(
            input=one.input,
            count=one.count,
            ranges=tuple(wire.range_from_wire(each) for each in one.ranges),
            more=one.more,
        )
        for one in messages
    )


def _member(kind: type[EnumT], value: object, what: str) -> EnumT:
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequest(f"{value!r} is no {what}") from None

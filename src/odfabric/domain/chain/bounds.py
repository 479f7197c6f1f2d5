"""Rules X10 to X14: what a node can hold of what a block says.

The binary form of blocks admits more than rows, calendars and SQL do: unsigned 64-bit numbers, years of 32 bits, any text for a
column, any bytes for a schema. Invariant: a block that passes holds nothing that overflows or fails to decode later. Looks at one
block alone; what blocks say of each other is judged by `chain.validate`, which calls this last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from odfabric.domain.chain.schema_evolution import schema_of_event
from odfabric.errors import IncompatibleSchema, InvalidBlock
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfabric.model.instant import FIRST_INSTANT, LAST_INSTANT, Instant
from odfabric.model.metadata import (
    AddData,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetVocab,
)
from odfabric.model.offsets import OFFSET_MAX
from odfabric.model.vocabulary import DatasetVocabulary

SIZE_MAX = 2**63 - 1
"""The largest size of an object in bytes: stores and databases count in signed 64-bit integers."""


def check_bounds(block: MetadataBlock) -> None:
    """Judge what a block says of itself.

    Raises InvalidBlock with the rule in `place.rule`.
    """
    event = block.event
    check_numbers(event)
    _check_time("system_time", block.system_time)
    match event:
        case AddData() | ExecuteTransform():
            if event.new_watermark is not None:
                _check_time("new_watermark", event.new_watermark)
        case SetVocab():
            _check_vocabulary(event)
        case SetDataSchema():
            _check_schema(event)
        case _:
            pass


def check_numbers(event: MetadataEvent) -> None:
    """Rules X10 and X14.

    Without them no code may calculate with offsets or sizes of strangers. Raises InvalidBlock.
    """
    if not isinstance(event, AddData | ExecuteTransform):
        return
    for member, value, maximum in _numbers(event):
        if value is not None and value > maximum:
            raise _invalid("X10", event, f"{member} is {value}, at most {maximum} is possible")
    if isinstance(event, ExecuteTransform):
        for progress in event.query_inputs:
            _check_input_goes_on(event, progress)


def _numbers(event: AddData | ExecuteTransform) -> Iterator[tuple[str, int | None, int]]:
    """Every offset and size of a data event, with its largest value."""
    yield "prev_offset", event.prev_offset, OFFSET_MAX
    if event.new_data is not None:
        yield "new_data.offset_interval.start", event.new_data.offset_interval.start, OFFSET_MAX
        yield "new_data.offset_interval.end", event.new_data.offset_interval.end, OFFSET_MAX
        yield "new_data.size", event.new_data.size, SIZE_MAX
    if event.new_checkpoint is not None:
        yield "new_checkpoint.size", event.new_checkpoint.size, SIZE_MAX
    if isinstance(event, ExecuteTransform):
        for number, progress in enumerate(event.query_inputs):
            yield f"query_inputs[{number}].prev_offset", progress.prev_offset, OFFSET_MAX
            yield f"query_inputs[{number}].new_offset", progress.new_offset, OFFSET_MAX


def _check_input_goes_on(event: ExecuteTransform, progress: ExecuteTransformInput) -> None:
    before, after = progress.prev_offset, progress.new_offset
    if before is not None and after is not None and after < before:
        raise _invalid("X14", event, f"Input {progress.dataset_id} goes back from offset {before} to {after}")


def _check_time(member: str, moment: Instant) -> None:
    if not FIRST_INSTANT <= moment <= LAST_INSTANT:
        raise InvalidBlock(
            f"{member} is {moment}, times between {FIRST_INSTANT} and {LAST_INSTANT} are possible",
            kind="TimeOutOfRange",
            rule="X11",
            hint="check the clock or the event times of whoever wrote the block",
        )


def _check_vocabulary(event: SetVocab) -> None:
    given = (event.offset_column, event.operation_type_column, event.system_time_column, event.event_time_column)
    if "" in given:
        raise _invalid("X12", event, "A system column has an empty name", hint="leave a member out for its default")
    vocabulary = DatasetVocabulary.from_event(event)
    names = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time, vocabulary.event_time)
    # SQL compares names without regard to case.
    for name in _repeated([name.casefold() for name in names]):
        raise _invalid(
            "X12",
            event,
            f"Two system columns are named `{name}`",
            hint="offset, op, system and event time are four columns",
        )


def _check_schema(event: SetDataSchema) -> None:
    try:
        schema = schema_of_event(event)
        data_schema_to_arrow(schema, encodings=False)
    except (InvalidBlock, IncompatibleSchema) as error:
        raise _invalid("X13", event, f"The schema cannot be used: {error.message}") from error
    for path in _repeated_fields(schema):
        raise _invalid("X13", event, f"The schema has several fields `{path}`")


def _repeated_fields(schema: DataSchema) -> Iterator[str]:
    yield from _repeated_in("", schema.fields)


def _repeated_in(path: str, fields: Sequence[DataField]) -> Iterator[str]:
    for name in _repeated([field.name for field in fields]):
        yield f"{path}{name}"
    for field in fields:
        yield from _repeated_below(f"{path}{field.name}", field.type)


def _repeated_below(path: str, data_type: DataType) -> Iterator[str]:
    match data_type:
        case DataTypeStruct(fields=fields):
            yield from _repeated_in(f"{path}.", fields)
        case DataTypeOption(inner=inner):
            yield from _repeated_below(path, inner)
        case DataTypeList(item_type=item):
            yield from _repeated_below(f"{path}[]", item)
        case DataTypeMap(key_type=key, value_type=value):
            yield from _repeated_below(f"{path}{{key}}", key)
            yield from _repeated_below(f"{path}{{value}}", value)
        case _:
            pass


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _invalid(rule: str, event: MetadataEvent, message: str, *, hint: str | None = None) -> InvalidBlock:
    text = f"Invalid event: {message}: {type(event).__name__}"
    return InvalidBlock(text, kind="InvalidEvent", rule=rule, hint=hint)

"""Engines of the reference over the contract `engine.Engine`.

Owns how one of our transactions is asked for in that contract: schema files beside the call's other files, paths as the engine
sees them, watermarks as pairs. Invariant: what comes back is as foreign as any file from outside: interval, columns, operations
and times of the slice are checked before anybody sees the result. Results are pure and commit nothing, so whatever breaks on
the way is Determinate. Not here: bytes of messages (`formats.blocks.engine_contract`), which transform goes to which engine (`wiring`).
Source: specification, "Engine Contract".
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import grpc
import pyarrow as pa
from pyarrow import types

from odfabric.errors import (
    Determinate,
    IncompatibleSchema,
    InvalidData,
    InvalidQuery,
    InvalidRequest,
    LimitExceeded,
    Place,
)
from odfabric.formats.blocks.engine_contract import (
    EXECUTE_TRANSFORM,
    SERVICE,
    decode_message,
    encode_message,
    vocabulary_to_contract,
)
from odfabric.formats.engine_messages.grpc_target import grpc_target
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, open_parquet
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.slice_check import SliceRules, check_slice_rows
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import check_storable
from odfabric.model import engine_contract as contract
from odfabric.model.engine import (
    EngineIdentity,
    EngineProgress,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
)
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.engine import ProgressListener

_ZONES_OF_UTC = frozenset({"UTC", "Etc/UTC", "Z", "+00:00"})
_LOOK_EVERY_S = 0.1
_MESSAGE_CHARACTERS_MAX = 4_000
"""Of what an engine says; the rest, a stack trace for the most part, helps nobody here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractChannel:
    """An engine's address, its name for the exchange folder, and time to wait for it.

    `name` is what transforms call the engine. `exchange` is our folder; `exchange_seen` the same as the engine sees it.
    """

    name: str
    address: str
    exchange: Path
    exchange_seen: str
    call_s_max: float
    connect_s_max: float = 30.0
    message_bytes_max: int = 16 * 1024 * 1024


class _NobodyThere(Exception):
    """A call found no engine to run it."""


class ContractEngine:
    """Runs transactions on an engine of the reference.

    Thread-safe; `close` ends calls under way.
    """

    def __init__(self, channel: ContractChannel) -> None:
        self._settings = channel
        self._channel = grpc.insecure_channel(
            grpc_target(channel.address),
            options=(
                ("grpc.max_receive_message_length", channel.message_bytes_max),
                ("grpc.max_send_message_length", channel.message_bytes_max),
                ("grpc.enable_http_proxy", 0),  # an engine is never behind the proxy of the environment
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1_000),
                ("grpc.use_local_subchannel_pool", 1),
            ),
        )
        self._execute_transform = self._channel.unary_stream(f"/{SERVICE}/{EXECUTE_TRANSFORM}")

    def close(self) -> None:
        """Ends calls under way and the connection."""
        self._channel.close()

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """One transaction.

        A checkpoint file is there afterwards only if the engine keeps state.

        Raises InvalidQuery, InvalidData for an answer or a slice that breaks the contract, IncompatibleSchema, LimitExceeded,
        Determinate.
        """
        message = encode_message(self._as_contract(request))
        success = self._answer(message, progress)
        return self._checked(request, success)

    def _as_contract(self, request: TransformRequest) -> contract.TransformRequest:
        if len(request.checkpoint_paths) > 1:
            raise InvalidRequest(f"the engine `{self._settings.name}` takes one checkpoint file, not several")
        if request.previous is not None:
            raise InvalidRequest(
                f"the engine `{self._settings.name}` cannot change the transform of a dataset that has data",
                hint="declare a new dataset with this transform",
            )
        return contract.TransformRequest(
            dataset_id=request.dataset_id,
            # A transaction must not depend on what the dataset is called today.
            dataset_alias=request.dataset_id.multibase,
            system_time=request.system_time,
            vocab=vocabulary_to_contract(request.vocabulary),
            transform=request.transform,
            query_inputs=tuple(self._input(request, number) for number in range(len(request.inputs))),
            next_offset=request.next_offset,
            prev_checkpoint_path=self._seen(request.checkpoint_paths[0]) if request.checkpoint_paths else None,
            new_checkpoint_path=self._seen(request.new_checkpoint_path),
            new_data_path=self._seen(request.new_data_path),
        )

    def _input(self, request: TransformRequest, number: int) -> contract.TransformRequestInput:
        one = request.inputs[number]
        schema_file = f"{request.new_data_path}-schema-{number}"
        with SliceWriter(self._settings.exchange / schema_file, data_schema_to_arrow(one.data_schema, encodings=False)):
            pass
        return contract.TransformRequestInput(
            dataset_id=one.dataset_id,
            dataset_alias=one.dataset_id.multibase,
            query_alias=one.query_alias,
            vocab=vocabulary_to_contract(one.vocabulary),
            offset_interval=one.offsets.to_wire() if one.offsets else None,
            data_paths=tuple(self._seen(each.path) for each in one.slices) if one.offsets else (),
            schema_file=self._seen(schema_file),
            explicit_watermarks=_watermarks(one),
        )

    def _seen(self, path: str) -> str:
        """A path below the exchange folder as the engine knows it."""
        return f"{self._settings.exchange_seen.rstrip('/')}/{path}"

    def _answer(self, message: bytes, progress: ProgressListener) -> contract.TransformResponseSuccess:
        """Asks until the engine is up: it may have been started a moment ago."""
        end = time.monotonic() + self._settings.connect_s_max
        while True:
            try:
                return self._attempt(message, progress)
            except _NobodyThere as error:
                if time.monotonic() >= end:
                    raise Determinate(
                        f"the engine `{self._settings.name}` does not answer at {self._settings.address}"
                    ) from error
                time.sleep(_LOOK_EVERY_S)

    def _attempt(self, message: bytes, progress: ProgressListener) -> contract.TransformResponseSuccess:
        name, answered = self._settings.name, False
        answers = self._execute_transform(message, timeout=self._settings.call_s_max)
        try:
            for answer in answers:
                answered = True
                match decode_message(contract.TransformResponseRoot, answer).value:
                    case contract.TransformResponseProgress():
                        progress(EngineProgress(stage="transform", done=0, total=0))
                    case contract.TransformResponseSuccess() as success:
                        return success
                    case contract.TransformResponseInvalidQuery(message=text):
                        raise InvalidQuery(_shown(text), place=Place(rule=f"engine-{name}"))
                    case contract.TransformResponseInternalError(message=text):
                        raise Determinate(f"the engine `{name}` failed: {_shown(text)}")
        except InvalidRequest as error:
            raise InvalidData(f"the engine `{name}` answered {error.message}", hint=error.hint) from error
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE and not answered:
                raise _NobodyThere from error
            self._raise(error)
        finally:
            answers.cancel()  # a listener that raises ends the work too
        raise Determinate(f"the engine `{name}` ended a call without an answer")

    def _raise(self, error: grpc.RpcError) -> NoReturn:
        settings, code = self._settings, error.code()
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise LimitExceeded(
                "the engine did not answer in time", limit="engine_call_s_max", maximum=settings.call_s_max
            ) from error
        if code == grpc.StatusCode.UNIMPLEMENTED:
            raise Determinate(
                f"what listens at {settings.address} is no engine of the contract {SERVICE}",
                hint=f"is the address of `{settings.name}` right?",
            ) from error
        raise Determinate(f"the engine `{settings.name}` is away ({code.name.lower()})") from error

    def _checked(self, request: TransformRequest, success: contract.TransformResponseSuccess) -> TransformResult:
        path = self._settings.exchange / request.new_data_path
        checkpoint = self._settings.exchange / request.new_checkpoint_path
        if path.is_symlink() or not path.is_file():
            raise self._broken("wrote no slice, or not as a plain file")
        if checkpoint.is_symlink() or (checkpoint.exists() and not checkpoint.is_file()):
            raise self._broken("wrote its checkpoint not as a plain file")
        offsets = self._offsets(request, success)
        with open_parquet(path) as file:
            schema, rows = arrow_schema_of(file), file.metadata.num_rows
        self._check_columns(schema, request.vocabulary)
        data_schema = arrow_to_data_schema(schema)
        check_storable(data_schema)
        if offsets is None:
            problems = [f"the slice has {rows} rows without an offset interval"] if rows else []
        else:
            rules = SliceRules(
                interval=offsets.to_wire(),
                vocabulary=request.vocabulary,
                data_schema=data_schema if request.data_schema is None else request.data_schema,
                system_time=request.system_time,
            )
            problems = check_slice_rows(path, rules)
        if problems:
            raise self._broken(f"wrote a slice that breaks the contract: {problems[0]}")
        # Engines of the reference do not say which build they are: what is known is what the transform asks for.
        made_by = EngineIdentity(name=self._settings.name, version=request.transform.version or "")
        return TransformResult(
            offsets=offsets, watermark=success.new_watermark, data_schema=data_schema, made_by=made_by
        )

    def _offsets(self, request: TransformRequest, success: contract.TransformResponseSuccess) -> OffsetRange | None:
        interval = success.new_offset_interval
        if interval is None:
            return None
        if interval.start != request.next_offset or interval.end < interval.start:
            raise self._broken(
                f"answered the offsets [{interval.start}, {interval.end}], they begin at {request.next_offset}"
            )
        return OffsetRange.from_wire(interval)

    def _check_columns(self, schema: pa.Schema, vocabulary: DatasetVocabulary) -> None:
        system = [vocabulary.offset, vocabulary.operation_type, vocabulary.system_time, vocabulary.event_time]
        if schema.names[: len(system)] != system:
            listed = ", ".join(f"`{name}`" for name in system)
            raise IncompatibleSchema(
                f"the engine `{self._settings.name}` wrote a slice that does not begin with {listed}"
            )
        for name in (vocabulary.offset, vocabulary.operation_type):
            if not types.is_integer(schema.field(name).type):
                raise self._broken(f"wrote `{name}` as {schema.field(name).type}, not as an integer")
        for name in (vocabulary.system_time, vocabulary.event_time):
            if not _is_time(schema.field(name).type, date=name == vocabulary.event_time):
                raise self._broken(f"wrote `{name}` as {schema.field(name).type}, not as a timestamp in UTC")

    def _broken(self, what: str) -> InvalidData:
        return InvalidData(f"the engine `{self._settings.name}` {what}", hint="this is a fault of that engine")


def _watermarks(one: TransformRequestInput) -> tuple[contract.Watermark, ...]:
    return tuple(
        contract.Watermark(system_time=step.system_time, event_time=step.watermark)
        for step in one.steps
        if step.watermark is not None
    )


def _is_time(arrow: pa.DataType, *, date: bool) -> bool:
    return (date and bool(types.is_date(arrow))) or (bool(types.is_timestamp(arrow)) and arrow.tz in _ZONES_OF_UTC)


def _shown(text: str) -> str:
    """What an engine says, without signs that would act on a terminal."""
    return re.sub(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f-\x9f]", " ", text)[:_MESSAGE_CHARACTERS_MAX].strip()

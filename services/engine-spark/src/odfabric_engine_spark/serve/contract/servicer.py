"""The gRPC service `engine.Engine`, for coordinators of the reference.

Owns its two methods, the names that it gives to files of the exchange folder, and its kinds of errors. Invariant: every stream
ends with exactly one of Success, InvalidQuery and InternalError. Not here: bytes (`odfabric.formats.blocks.engine_contract`), where
it may listen (`address`), the work (`transform`, `raw_query`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import grpc

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidQuery, InvalidRequest, OdfError
from odfabric.formats.blocks.engine_contract import (
    EXECUTE_RAW_QUERY,
    EXECUTE_TRANSFORM,
    SERVICE,
    decode_message,
    encode_message,
)
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.model import engine_contract as contract
from odfabric.model.engine import EngineProgress
from odfabric_engine_spark.serve.contract.raw_query import execute_contract_query
from odfabric_engine_spark.serve.contract.transform import execute_contract_transform
from odfabric_engine_spark.serve.crash_points import TRANSFORM_BEFORE_RESULT, crash_point
from odfabric_engine_spark.serve.servicer import Done, EngineServicer, Lost, Refused
from odfabric_engine_spark.spark.settings import EngineSettings

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

_NOT_OF_THE_QUERY = ("checkpoint-", "file-")
"""How rules begin by which a checkpoint, a slice or a file of a schema is refused: the author of the query cannot act on it."""


def contract_handler(servicer: EngineServicer, settings: EngineSettings) -> grpc.GenericRpcHandler:
    """The methods of the service, which share places and limits with our own."""
    methods = _ContractMethods(servicer, settings)
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            EXECUTE_TRANSFORM: grpc.unary_stream_rpc_method_handler(methods.execute_transform),
            EXECUTE_RAW_QUERY: grpc.unary_stream_rpc_method_handler(methods.execute_raw_query),
        },
    )


class _ContractMethods:
    """Messages come and go as bytes."""

    def __init__(self, servicer: EngineServicer, settings: EngineSettings) -> None:
        self._servicer = servicer
        self._settings = settings
        folders = (settings.compat_folder, str(settings.exchange.absolute()), str(settings.exchange.resolve()))
        self._prefixes = tuple(f"{folder.rstrip('/')}/" for folder in folders)

    def execute_transform(self, message: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """One transaction of a derivative dataset."""
        for event in self._servicer.events(self._transform_request, execute_contract_transform, message, context):
            match event:
                case EngineProgress():
                    value: contract.TransformResponse = contract.TransformResponseProgress()
                case Done(result=result):
                    crash_point(TRANSFORM_BEFORE_RESULT, armed=self._settings.crash_at)
                    value = result
                case Refused(error=error) if _is_of_the_query(error):
                    value = contract.TransformResponseInvalidQuery(message=str(error))
                case Refused(error=error) | Lost(error=error):
                    value = contract.TransformResponseInternalError(message=str(error))
                case _:
                    value = contract.TransformResponseInternalError(message=wire.BUG)
            yield encode_message(contract.TransformResponseRoot(value=value))

    def execute_raw_query(self, message: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """A query over files."""
        for event in self._servicer.events(self._query_request, execute_contract_query, message, context):
            match event:
                case EngineProgress():
                    value: contract.RawQueryResponse = contract.RawQueryResponseProgress()
                case Done(result=result):
                    value = result
                case Refused(error=error) if _is_of_the_query(error):
                    value = contract.RawQueryResponseInvalidQuery(message=str(error))
                case Refused(error=error) | Lost(error=error):
                    value = contract.RawQueryResponseInternalError(message=str(error))
                case _:
                    value = contract.RawQueryResponseInternalError(message=wire.BUG)
            yield encode_message(contract.RawQueryResponseRoot(value=value))

    def _transform_request(self, message: bytes) -> contract.TransformRequest:
        request = decode_message(contract.TransformRequest, message)
        path = self._path
        request = replace(
            request,
            query_inputs=tuple(
                replace(one, data_paths=tuple(map(path, one.data_paths)), schema_file=path(one.schema_file))
                for one in request.query_inputs
            ),
            prev_checkpoint_path=None if request.prev_checkpoint_path is None else path(request.prev_checkpoint_path),
            new_checkpoint_path=path(request.new_checkpoint_path),
            new_data_path=path(request.new_data_path),
        )
        read = [name for one in request.query_inputs for name in (*one.data_paths, one.schema_file)]
        _check_places([request.new_data_path, request.new_checkpoint_path], [*read, request.prev_checkpoint_path])
        return request

    def _query_request(self, message: bytes) -> contract.RawQueryRequest:
        request = decode_message(contract.RawQueryRequest, message)
        request = replace(
            request,
            input_data_paths=tuple(map(self._path, request.input_data_paths)),
            output_data_path=self._path(request.output_data_path),
        )
        _check_places([request.output_data_path], request.input_data_paths)
        return request

    def _path(self, path: str) -> str:
        """The path below the exchange folder, which judges it.

        One that is elsewhere stays as it is and is refused.
        """
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), "")
        return path.removeprefix(prefix)


def _check_places(written: Sequence[str], read: Sequence[str | None]) -> None:
    """Raises InvalidRequest for a file that is to be written and is another one too."""
    for at, path in enumerate(written):
        if path in (*written[:at], *read):
            raise InvalidRequest(f"{path} is to be written, and is another file of the request too")


def _is_of_the_query(error: OdfError) -> bool:
    """Whether the query's author can act on the error, or on the rows it names."""
    if isinstance(error, InvalidData):
        return not (error.place.rule or "").startswith(_NOT_OF_THE_QUERY)
    return isinstance(error, InvalidQuery | IncompatibleSchema)

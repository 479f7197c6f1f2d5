"""A stand-in for the reference's simplest, stateless `engine.Engine` server.

It understands one query, which takes all columns of one input. Tests spoil its answers, or the slice that it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfabric.formats.blocks.engine_contract import SERVICE, decode_message, encode_message
from odfabric.model import engine_contract as contract
from odfabric.model.metadata import OffsetInterval

MILLIS = pa.timestamp("ms", "UTC")
QUERY = "select * from everything"

Answers = Callable[[contract.TransformRequest], Iterator[contract.TransformResponse | bytes]]


@dataclass
class ReferenceEngine:
    """What a running stand-in was asked, and how it shall answer.

    `folder` is the exchange folder, seen as `seen`.
    """

    folder: Path
    seen: str = "/opt/engine"
    address: str = ""
    requests: list[contract.TransformRequest] = field(default_factory=list)
    spoil: Callable[[pa.Table], pa.Table] = lambda table: table
    answers: Answers | None = None

    def file(self, path: str) -> Path:
        """A path of the contract as one of this machine."""
        assert path.startswith(f"{self.seen}/"), path
        return self.folder / path.removeprefix(f"{self.seen}/")

    def run(self, request: contract.TransformRequest) -> Iterator[contract.TransformResponse | bytes]:
        """All rows of the first input, as appended rows."""
        yield contract.TransformResponseProgress()
        one = request.query_inputs[0]
        if request.transform.queries is None or request.transform.queries[-1].query != QUERY:
            yield contract.TransformResponseInvalidQuery(message="line 1: this engine knows one query")
            return
        schema = pq.read_schema(self.file(one.schema_file))
        rows = pa.concat_tables([schema.empty_table(), *(pq.read_table(self.file(path)) for path in one.data_paths)])
        if one.offset_interval is not None:
            offset = rows.column("offset")
            first, last = one.offset_interval.start, one.offset_interval.end
            rows = rows.filter(pc.and_(pc.greater_equal(offset, first), pc.less_equal(offset, last)))
        count = rows.num_rows
        columns = {
            "offset": pa.array(range(request.next_offset, request.next_offset + count), pa.int64()),
            "op": pa.array([0] * count, pa.int32()),
            "system_time": pa.array([request.system_time.millis] * count, MILLIS),
            **{name: rows.column(name) for name in rows.column_names if name not in ("offset", "op", "system_time")},
        }
        pq.write_table(self.spoil(pa.table(columns)), self.file(request.new_data_path))
        marks = [mark.event_time for mark in one.explicit_watermarks]
        end = request.next_offset + count - 1
        yield contract.TransformResponseSuccess(
            new_offset_interval=OffsetInterval(start=request.next_offset, end=end) if count else None,
            new_watermark=max(marks, default=None),
        )

    def handle(self, message: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """One call."""
        request = decode_message(contract.TransformRequest, message)
        self.requests.append(request)
        for answer in (self.answers or self.run)(request):
            yield answer if isinstance(answer, bytes) else encode_message(contract.TransformResponseRoot(value=answer))


@contextmanager
def reference_engine(folder: Path, *, listen: str = "127.0.0.1:0") -> Iterator[ReferenceEngine]:
    """A running stand-in over an exchange folder."""
    engine = ReferenceEngine(folder)
    server = grpc.server(ThreadPoolExecutor(4), options=(("grpc.so_reuseport", 0),))
    handler = grpc.unary_stream_rpc_method_handler(engine.handle)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"ExecuteTransform": handler}),))
    engine.address = f"127.0.0.1:{server.add_insecure_port(listen)}"
    server.start()
    try:
        yield engine
    finally:
        server.stop(1).wait(2)

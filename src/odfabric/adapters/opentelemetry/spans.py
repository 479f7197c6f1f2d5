"""Spans to an OpenTelemetry collector: OTLP over HTTP, batched, in a thread.

A collector that is away costs spans, never a request: the queue is bounded, and what does not fit is dropped.
"""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from odfabric.model.node.span import FinishedSpan
from odfabric.model.node.span import SpanKind as OurKind

_KINDS = {OurKind.SERVER: SpanKind.SERVER, OurKind.CLIENT: SpanKind.CLIENT, OurKind.INTERNAL: SpanKind.INTERNAL}
_SEND_S = 5.0


class OtlpSpans:
    """Sends spans of one process.

    `endpoint` is the collector's address with its path, usually `/v1/traces`.
    """

    def __init__(self, endpoint: str, *, service: str, version: str) -> None:
        self._resource = Resource.create({"service.name": service, "service.version": version})
        self._processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=_SEND_S))

    def __call__(self, span: FinishedSpan) -> None:
        """Queue one."""
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(span.trace_id, span.span_id),
                parent=_context(span.trace_id, span.parent_id) if span.parent_id is not None else None,
                resource=self._resource,
                attributes=dict(span.attributes) | ({"error.type": span.error} if span.error is not None else {}),
                kind=_KINDS[span.kind],
                status=Status(StatusCode.ERROR if span.error is not None else StatusCode.UNSET),
                start_time=span.began_ns,
                end_time=span.ended_ns,
            )
        )

    def close(self) -> None:
        """Send what waits, for some seconds at most."""
        self._processor.force_flush(int(_SEND_S * 1000))
        self._processor.shutdown()  # type: ignore[no-untyped-call]


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

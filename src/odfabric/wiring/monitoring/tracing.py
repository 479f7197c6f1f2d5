"""Whether the spans of a process go to a collector, and the trace of a webhook."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from odfabric import __version__
from odfabric.formats.operations.trace_context import SPAN_BYTES, trace_of
from odfabric.model.node.span import SpanKind
from odfabric.model.subscriptions.subscription import Delivery
from odfabric.settings import Settings
from odfabric.telemetry import finish_span, is_recorded, record_spans, working_on


@contextmanager
def tracing(settings: Settings, process: str) -> Iterator[None]:
    """Within, spans go to the collector that `ODF_OTLP_ENDPOINT` names.

    Nothing if it names none.
    """
    if settings.otlp_endpoint is None:
        yield
        return
    # Imported when wanted: the library takes as long to load as a command runs.
    from odfabric.adapters.opentelemetry.spans import OtlpSpans

    spans = OtlpSpans(settings.otlp_endpoint, service=f"odfabric-{process}", version=__version__)
    try:
        with record_spans(spans, share=settings.trace_share):
            yield
    finally:
        spans.close()


def traced_delivery(delivery: Delivery, attempt: Callable[[], bool]) -> bool:
    """Attempt a webhook in its trace, which its receiver gets; whether delivered."""
    own, began_ns = trace_of(delivery.id, secrets.token_bytes(SPAN_BYTES)), time.time_ns()
    own = replace(own, is_sampled=is_recorded(own.trace_id))
    block = str(delivery.new_head) if delivery.new_head is not None else None
    with working_on(delivery=delivery.id, dataset=str(delivery.dataset_id), block=block, trace=own):
        is_delivered = attempt()
    error = None if is_delivered else "not-delivered"
    finish_span("webhook", own, kind=SpanKind.CLIENT, parent_id=None, began_ns=began_ns, error=error)
    return is_delivered

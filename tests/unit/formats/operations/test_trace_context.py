"""`traceparent` by the grammar of the W3C Recommendation."""

import pytest

from odfabric.formats.operations.trace_context import TraceContext, new_trace, parse_traceparent, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-adds", True),
    ],
)
def test_what_the_recommendation_allows_is_read(text: str, is_sampled: bool) -> None:
    found = parse_traceparent(text)
    assert found == TraceContext(TRACE, SPAN, is_sampled)
    assert str(found) == f"00-{TRACE}-{SPAN}-{'01' if is_sampled else '00'}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"0-{TRACE}-{SPAN}-01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01\r\nx: y",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1000,
        f"00-{'٤' * 32}-{SPAN}-01",
    ],
)
def test_anything_else_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_spans_are_ours_and_traces_go_on() -> None:
    begun = new_trace(bytes(range(24)))
    assert parse_traceparent(str(begun)) == begun
    child = TraceContext(TRACE, SPAN, True).child(b"12345678")
    assert (child.trace_id, child.span_id, child.is_sampled) == (TRACE, b"12345678".hex(), True)
    assert parse_traceparent(str(new_trace(bytes(24)))) is not None, "chance may give only zeros, which mean nothing"
    first, second = trace_of("d1", b"11111111"), trace_of("d1", b"22222222")
    assert (first.trace_id == second.trace_id, first.span_id == second.span_id) == (True, False)
    assert trace_of("d2", b"11111111").trace_id != first.trace_id
    for wrong in (b"", bytes(23)):
        with pytest.raises(ValueError, match="bytes"):
            new_trace(wrong)
    with pytest.raises(ValueError, match="bytes"):
        begun.child(b"1")

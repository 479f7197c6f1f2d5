"""Forms with a file: whatever pieces they arrive in, the file is what was sent."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest, LimitExceeded
from odfabric_api.bodies.streamed_body import FIELD_BYTES_MAX, form_file

FIELDS = frozenset({"source", "media_type"})
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


@given(
    st.lists(st.sampled_from([b"\r\n", b"--", b"--b", b"\r\n--", b"b", b"\0", b"x" * 50]), max_size=12).map(b"".join),
    st.text(max_size=10).filter(lambda text: not set(text) & set("\r\n\0")),
    st.integers(1, 60),
)
def test_the_file_is_what_was_sent(content: bytes, source: str, size: int) -> None:
    sent = httpx.Request(
        "POST", "http://a.example", data={"source": source}, files={"file": ('a "é".csv', content, "text/csv")}
    )
    boundary = sent.headers["content-type"].partition("boundary=")[2]
    found = form_file(pieces(sent.read(), size), boundary, fields=FIELDS)
    assert (found.name, found.fields) == ('a "é".csv', {"source": source})
    assert b"".join(found.chunks) == content


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        b"x--b\r\n",
        HEAD + b"content",
        HEAD + b"content\r\n--b",
        HEAD + b"content\r\n--b\r\n" + HEAD,
        HEAD + b"content\r\n--b--\r\nmore",
        b"--b--\r\n",
        b'--b\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n--b--\r\n',
        b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
        b'--b\r\nContent-Disposition: form-data; name="source"\r\n\r\n\xff\r\n--b--\r\n',
    ],
)
def test_a_broken_form_is_refused(body: bytes) -> None:
    for size in (1, 1000):
        with pytest.raises(InvalidRequest):
            b"".join(form_file(pieces(body, size), "b", fields=FIELDS).chunks)


def test_what_comes_before_the_file_is_bounded() -> None:
    long = b"x" * (2 * FIELD_BYTES_MAX)
    for body in (long, b"--b\r\n" + long, b'--b\r\nContent-Disposition: form-data; name="source"\r\n\r\n' + long):
        with pytest.raises(LimitExceeded):
            form_file(pieces(body, 10_000), "b", fields=FIELDS)

"""Which answers of sources and peers are final, and as what they are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.sources.remote_answers import failed_answer, is_final
from odfabric.errors import AccessDenied, Determinate, InvalidInput, InvalidRequest, NotFound, OdfError

URL = "https://data.example/a.csv"

FINAL: dict[int, type[OdfError]] = {
    **dict.fromkeys(set(range(300, 400)) - {304}, InvalidRequest),
    **dict.fromkeys(set(range(400, 500)) - {408, 425, 429}, InvalidRequest),
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    410: NotFound,
}
"""All that is final, as a table that the rule is not made from."""


@pytest.mark.parametrize("status", range(200, 600))
def test_every_status_has_one_meaning(status: int) -> None:
    error = failed_answer(status, url=URL, what="source", said="why", retry_after_s=7)
    assert type(error) is FINAL.get(status, Determinate)
    assert is_final(status) == (status in FINAL)
    told = str(error)
    assert URL in told
    assert str(status) in told
    if isinstance(error, Determinate):
        assert error.retry_after_s == 7
    else:
        assert error.hint, "what to do"


@given(st.integers())
def test_final_is_what_is_a_users_to_correct(status: int) -> None:
    error = failed_answer(status, url=URL, what="source")
    assert is_final(status) == isinstance(error, InvalidInput | AccessDenied | NotFound)
    assert is_final(status) != isinstance(error, Determinate)


def test_what_is_not_there_is_told_by_its_name() -> None:
    error = failed_answer(410, url=URL, what="block", name="f16")
    assert isinstance(error, NotFound)
    assert (error.what, error.name) == ("block", "f16")
    assert error.hint == f"{URL} answered with status 410: check the URL"

"""Watermarks ahead of the clock: what is refused, and what is said of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.ingest_results import said_of
from odfabric.domain.ingestion.watermark import FAR_AHEAD_S, check_not_far_ahead, far_ahead
from odfabric.errors import InvalidRequest
from odfabric.model.instant import NANOS_PER_SECOND, Instant

NOW = Instant.parse("2026-01-01T00:00:00Z")
WIDE_S = 10**9


def after(seconds: int) -> Instant:
    return Instant(NOW.epoch_ns + seconds * NANOS_PER_SECOND)


@given(ahead_s=st.integers(-WIDE_S, WIDE_S), allowed_s=st.integers(0, WIDE_S))
def test_a_watermark_is_refused_beyond_what_is_allowed(ahead_s: int, allowed_s: int) -> None:
    if ahead_s <= allowed_s:
        check_not_far_ahead(after(ahead_s), now=NOW, ahead_s_max=allowed_s)
        return
    with pytest.raises(InvalidRequest) as refused:
        check_not_far_ahead(after(ahead_s), now=NOW, ahead_s_max=allowed_s)
    assert str(after(allowed_s)) in str(refused.value.hint)


@given(ahead_s=st.integers(-WIDE_S, WIDE_S))
def test_far_ahead_is_more_than_a_year(ahead_s: int) -> None:
    found = far_ahead(after(ahead_s), now=NOW)
    assert found == (after(ahead_s) if ahead_s > FAR_AHEAD_S else None)


def test_the_command_says_it() -> None:
    result = {"rows": 1, "watermarkAhead": "9999-12-31T00:00:00Z"}
    assert "the watermark is now 9999-12-31T00:00:00Z, far ahead" in said_of(result)
    assert "watermark" not in said_of({"rows": 1})

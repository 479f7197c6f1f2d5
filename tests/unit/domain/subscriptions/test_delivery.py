"""The schedule of deliveries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.subscriptions.delivery import (
    ATTEMPTS_MAX,
    JITTER_SHARE,
    RETRY_AFTER_S_MAX,
    RETRY_DELAYS_S,
    Delivered,
    DeliveryDecision,
    GiveUp,
    RetryAt,
    next_attempt,
)
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.model.subscriptions.subscription import DeliveryStatus, WebhookResponse, delivery_id

NOW = Instant.parse("2026-03-01T12:00:00Z")
HOUR_S = 3600


def after(
    attempts: int, status: int | None, *, jitter: float = 0.0, retry_after_s: int | None = None
) -> DeliveryDecision:
    response = None if status is None else WebhookResponse(status, retry_after_s)
    return next_attempt(attempts=attempts, response=response, now=NOW, jitter=jitter)


def pause_s(decision: DeliveryDecision) -> float:
    assert isinstance(decision, RetryAt)
    return (decision.at.epoch_ns - NOW.epoch_ns) / NANOS_PER_SECOND


statuses = st.integers(100, 599) | st.none()
failures = statuses.filter(lambda status: status is None or (not 200 <= status <= 299 and status != 410))
jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 100), st.integers(200, 299), jitters)
def test_2xx_is_success_at_any_attempt(attempts: int, status: int, jitter: float) -> None:
    assert after(attempts, status, jitter=jitter) == Delivered()


@given(st.integers(1, 100), jitters)
def test_410_ends_the_subscription_at_once(attempts: int, jitter: float) -> None:
    decision = after(attempts, 410, jitter=jitter)
    assert isinstance(decision, GiveUp)
    assert decision.status is DeliveryStatus.DROPPED


@given(st.integers(1, ATTEMPTS_MAX - 1), failures, jitters)
def test_everything_else_is_tried_again(attempts: int, status: int | None, jitter: float) -> None:
    delay_s = RETRY_DELAYS_S[attempts - 1]
    assert delay_s <= pause_s(after(attempts, status, jitter=jitter)) <= delay_s * (1 + JITTER_SHARE)


@given(st.integers(ATTEMPTS_MAX, 1000), failures, jitters)
def test_after_the_last_attempt_it_is_over(attempts: int, status: int | None, jitter: float) -> None:
    decision = after(attempts, status, jitter=jitter)
    assert isinstance(decision, GiveUp)
    assert decision.status is DeliveryStatus.FAILED


def test_the_schedule_spans_three_days() -> None:
    assert [pause_s(after(attempts, None)) for attempts in range(1, ATTEMPTS_MAX)] == [
        5,
        300,
        1800,
        *(hours * HOUR_S for hours in (2, 5, 10, 14, 20, 24)),
    ]
    assert 72 * HOUR_S <= sum(RETRY_DELAYS_S) <= 96 * HOUR_S


@given(st.integers(1, ATTEMPTS_MAX - 1), st.sampled_from([429, 500, 502, 503]), st.integers(0, 10**9), jitters)
def test_a_receivers_wish_postpones_up_to_a_cap(attempts: int, status: int, wish_s: int, jitter: float) -> None:
    pause = pause_s(after(attempts, status, retry_after_s=wish_s, jitter=jitter))
    assert pause >= RETRY_DELAYS_S[attempts - 1]
    assert pause >= min(wish_s, RETRY_AFTER_S_MAX)
    assert pause <= max(RETRY_DELAYS_S[attempts - 1], RETRY_AFTER_S_MAX) * (1 + JITTER_SHARE)


@given(st.integers(1, ATTEMPTS_MAX - 1), failures, jitters, jitters)
def test_more_jitter_never_comes_earlier(attempts: int, status: int | None, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert pause_s(after(attempts, status, jitter=less)) <= pause_s(after(attempts, status, jitter=more))


@pytest.mark.parametrize(("attempts", "jitter"), [(0, 0.5), (-1, 0.5), (1, 1.0), (1, -0.1)])
def test_impossible_histories_are_bugs(attempts: int, jitter: float) -> None:
    with pytest.raises(ValueError, match="attempts count"):
        after(attempts, 500, jitter=jitter)


heads = st.binary(min_size=32, max_size=32).map(lambda digest: Multihash(SHA3_256, digest))


@given(st.tuples(st.text(max_size=40), heads), st.tuples(st.text(max_size=40), heads))
def test_ids_of_deliveries_differ_as_their_parts_do(one: tuple[str, Multihash], other: tuple[str, Multihash]) -> None:
    assert (delivery_id(*one) == delivery_id(*other)) is (one == other)


def test_ids_of_deliveries_never_change() -> None:
    assert delivery_id("subscription", Multihash(SHA3_256, bytes(32))) == (
        "3056b69ed874a8490b7ad492676c3db1a3c9f59cd611203164b7e878db55bd28"
    )

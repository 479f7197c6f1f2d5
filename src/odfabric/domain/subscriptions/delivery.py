"""What follows from an attempt to deliver an event.

Owns the schedule of attempts. Invariant: pure; chance comes in as a value, so the same
history gives the same decision. Success is 2xx and nothing else: a redirect is a failure, 410 ends the subscription's
deliveries, a receiver's Retry-After can postpone an attempt, not hasten it, and not beyond a cap. Not here: sending, rows.
Source: Standard Webhooks 1.0, "Deliverability and reliability", "Delivery success and failure".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.subscriptions.subscription import DeliveryStatus, WebhookResponse

_MINUTE_S = 60
_HOUR_S = 3600

RETRY_DELAYS_S = (
    5,
    5 * _MINUTE_S,
    30 * _MINUTE_S,
    2 * _HOUR_S,
    5 * _HOUR_S,
    10 * _HOUR_S,
    14 * _HOUR_S,
    20 * _HOUR_S,
    24 * _HOUR_S,
)
"""Pauses after the first, second, ... failed attempt: ten attempts over a little more than three days."""
ATTEMPTS_MAX = len(RETRY_DELAYS_S) + 1
JITTER_SHARE = 0.2
"""A pause grows by up to this share of itself, so that receivers of one outage are not all called again at once."""
RETRY_AFTER_S_MAX = 24 * _HOUR_S
"""Longest wish of a receiver that is granted."""

_GONE = 410
_DAY_S = 24 * _HOUR_S


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Another attempt at this instant."""

    at: Instant


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt.

    `status` is `failed`, or `dropped` if the receiver wants no events of this subscription at all.
    """

    status: DeliveryStatus
    reason: str


DeliveryDecision: TypeAlias = Delivered | RetryAt | GiveUp


def fails_too_long(failing_since: Instant | None, *, now: Instant, days_max: float) -> bool:
    """Whether to disable a subscription that fails since then, and again `now`."""
    return failing_since is not None and now.epoch_ns - failing_since.epoch_ns >= days_max * _DAY_S * NANOS_PER_SECOND


def next_attempt(*, attempts: int, response: WebhookResponse | None, now: Instant, jitter: float) -> DeliveryDecision:
    """Decide after attempt number `attempts` (from 1).

    `response` is None if there was none; `jitter` is in [0, 1).
    """
    if attempts < 1 or not 0 <= jitter < 1:
        raise ValueError("attempts count from 1, jitter is in [0, 1)")
    if response is not None and 200 <= response.status <= 299:
        return Delivered()
    if response is not None and response.status == _GONE:
        return GiveUp(DeliveryStatus.DROPPED, "the receiver is gone (410)")
    if attempts >= ATTEMPTS_MAX:
        return GiveUp(DeliveryStatus.FAILED, f"no success in {attempts} attempts")
    delay_s = RETRY_DELAYS_S[attempts - 1]
    wished_s = min(response.retry_after_s or 0, RETRY_AFTER_S_MAX) if response is not None else 0
    pause_s = max(delay_s, wished_s) * (1 + JITTER_SHARE * jitter)
    return RetryAt(Instant(now.epoch_ns + round(pause_s * NANOS_PER_SECOND)))

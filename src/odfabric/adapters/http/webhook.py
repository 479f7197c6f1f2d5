"""Delivery of webhooks: one POST, one answer.

Owns what an attempt is: every status is an answer, no redirect is followed, the body of the answer is not read. Not here:
signing (`formats.webhook_signature`) and what follows from the answer (`domain.delivery`). Source: Standard Webhooks 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from time import time

from odfabric.adapters.http.egress import AnswerHead, Egress
from odfabric.model.subscription import WebhookResponse

RETRY_AFTER_S_MAX = 31 * 24 * 3600
"""A wish for later than this is not sensible."""


class HttpWebhookSender:
    """`ports.egress.WebhookSender` over the guarded client."""

    def __init__(self, egress: Egress, *, timeout_s: float) -> None:
        """`timeout_s`: one attempt as a whole."""
        self._egress = egress
        self._timeout_s = timeout_s

    def check(self, url: str) -> None:
        """Refuse a URL that no attempt could reach."""
        self._egress.check(url)

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """One attempt."""
        answer = self._egress.post(url, headers=headers, body=body, total_s_max=self._timeout_s)
        return WebhookResponse(answer.status, _retry_after_s(answer))


def _retry_after_s(answer: AnswerHead) -> int | None:
    """Seconds, or a date against the receiver's own clock if it tells its time; None if absent or not sensible."""
    text = (answer.header("retry-after") or "").strip()
    seconds = int(text) if text.isdecimal() and len(text) <= 9 else _until(text, answer.header("date"))
    return seconds if seconds is not None and 0 <= seconds <= RETRY_AFTER_S_MAX else None


def _until(date_text: str, now_text: str | None) -> int | None:
    until, now = _epoch_s(date_text), _epoch_s(now_text or "")
    if until is None:
        return None
    return round(until - (time() if now is None else now))


def _epoch_s(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None

"""When a server wants to be asked again: the header Retry-After."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from time import time

from odfabric.adapters.http.egress import AnswerHead
from odfabric.domain.sources.remote_answers import sensible_pause_s


def retry_after_s(answer: AnswerHead) -> int | None:
    """Seconds, or a date against the server's own clock if it gives its time.

    None if absent or not sensible.
    """
    text = (answer.header("retry-after") or "").strip()
    return sensible_pause_s(text if text.isdecimal() else _until(text, answer.header("date")))


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

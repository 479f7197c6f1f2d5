"""When a flow runs next, and after which pause a failed attempt is made again.

Pure rules over instants. Times of a cron expression are wall times of its zone: where a clock is set back an hour, a time that comes twice
fires once; where it is set forward, one that does not come fires when the clock has passed it. Not here: what a run waits for
(`domain.flows.flow_readiness`).
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from odfabric.errors import InvalidRequest
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Backoff, Cron, Every, Flow, Reactive, RetryPolicy, Trigger

CRON_HINT = "write five fields: minute, hour, day, month and weekday, such as `30 6 * * 1-5`"
PAUSE_S_MAX = 86_400


def check_cron(trigger: Cron) -> None:
    """Raises InvalidRequest for a cron expression or a time zone that is invalid.

    For an expression that cannot be read or never fires, and for an unknown time zone.
    """
    zone = _zone(trigger.zone)
    if len(trigger.expression.split()) != 5:
        raise InvalidRequest(f"`{trigger.expression[:100]}` has not five fields", hint=CRON_HINT)
    try:
        next(CronSim(trigger.expression, datetime(2026, 1, 1, tzinfo=zone)))
    except CronSimError as error:
        raise InvalidRequest(f"`{trigger.expression[:100]}`: {error}", hint=CRON_HINT) from error
    except StopIteration as error:
        raise InvalidRequest(
            f"`{trigger.expression[:100]}` never comes", hint="name a day that its months have"
        ) from error


def next_start(trigger: Trigger, *, last: Instant | None, now: Instant) -> Instant | None:
    """When a schedule starts the next run.

    After the last one by its duration, at once if that has passed; for cron the first time after now.

    None for a trigger that is no schedule. An instant further away than the duration is of a clock that was ahead, and counts from now.
    """
    match trigger:
        case Every(seconds=seconds):
            period_ns = seconds * NANOS_PER_SECOND
            following = now.epoch_ns if last is None else last.epoch_ns + period_ns
            return Instant(min(max(following, now.epoch_ns), now.epoch_ns + period_ns))
        case Cron():
            at = now.to_datetime().astimezone(_zone(trigger.zone))
            return Instant.from_datetime(next(CronSim(trigger.expression, at)))
        case Reactive():
            return None


def is_too_far(flow: Flow, now: Instant) -> bool:
    """Whether the next start is one that only a clock which was ahead can have set."""
    trigger = flow.rule.trigger
    if flow.next_at is None or not isinstance(trigger, Every):
        return False
    return flow.next_at.epoch_ns > now.epoch_ns + trigger.seconds * NANOS_PER_SECOND


def retry_pause_s(policy: RetryPolicy, attempt: int, *, jitter: float) -> float | None:
    """Pause in seconds after a failed attempt, the first being 1.

    None if there is no other one. `jitter` is from 0 to below 1.
    """
    if attempt > policy.attempts_max:
        return None
    pause = float(policy.pause_s)
    match policy.backoff:
        case Backoff.FIXED:
            pass
        case Backoff.LINEAR:
            pause *= attempt
        case Backoff.EXPONENTIAL:
            pause *= 2 ** min(attempt - 1, 30)
        case Backoff.EXPONENTIAL_WITH_JITTER:
            pause = pause * 2 ** min(attempt - 1, 30) + jitter * policy.pause_s
    return min(pause, PAUSE_S_MAX)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "write a name of the IANA database, such as `Europe/Berlin`"
        raise InvalidRequest(f"there is no time zone `{name[:50]}`", hint=hint) from error

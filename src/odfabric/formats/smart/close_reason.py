"""Reasons of close frames, which have room for 123 bytes.

Invariant: a reason is a whole JSON value or the empty text, never a cut one: the peer reads it as the message that it
waits for. Source: RFC 6455, section 5.5; RFC-007.
"""

from __future__ import annotations

from odfabric.formats.smart.shared_parts import written_refusal
from odfabric.model.transfer.smart import InternalFailure, NameCollision, Phase, Refusal

REASON_BYTES_MAX = 123
NORMAL = 1000
FAILED = 1011
TRY_AGAIN = 1013
"""The server has no place for the conversation now."""
PULLED = "Client pull flow succeeded"
PUSHED = "Client push flow succeeded"
_NAME_TAKEN = InternalFailure(Phase.PUSH_TARGET, "the name is taken")


def close_reason(refusal: Refusal) -> str:
    """The refusal if it fits, else a shorter one that says as much of it as fits."""
    whole = written_refusal(refusal)
    if len(whole) <= REASON_BYTES_MAX:
        return whole
    match refusal:
        case NameCollision():
            return written_refusal(_NAME_TAKEN)
        case InternalFailure(phase=phase, message=message):
            return _cut(phase, message)
        case _:
            return ""


def _cut(phase: Phase, message: str) -> str:
    """The message is cut, not the JSON; a character may take several bytes there."""
    low, high = 0, min(len(message), REASON_BYTES_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(written_refusal(InternalFailure(phase, message[:middle]))) <= REASON_BYTES_MAX
        low, high = (middle, high) if fits else (low, middle - 1)
    return written_refusal(InternalFailure(phase, message[:low]))

"""The part of a pull's answer on its source: why something was taken or not.

Owns the texts, which REST, the command line and the console all show. Invariant: no secret is in a report; texts of a source are shown only
after the values of secrets have been taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from odfabric.domain.sources.polled_files import PassedFile, listed

PASSED_SHOWN_MAX = 20
"""Names of files that an answer lists one by one."""


class Outcome(Enum):
    """How a poll ended."""

    TAKEN = "taken"
    NOTHING_NEW = "nothing-new"
    NOT_MODIFIED = "not-modified"
    SAME_CONTENT = "same-content"
    UNCACHEABLE = "uncacheable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReport:
    """`source`: declared URL or pattern, `asked`: validators sent, `status`: answer's.

    `resumed` if the content was kept from a pull that failed after fetching it.
    """

    source: str
    outcome: Outcome
    asked: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    hint: str | None = None
    passed: tuple[PassedFile, ...] = ()
    resumed: bool = False
    unreachable: str | None = None

    @property
    def message(self) -> str:
        """One sentence for people."""
        said = f"{_SENTENCES[self.outcome]}{self._exchange()}"
        if self.resumed:
            because = "the server could not be asked" if self.unreachable else "the server still has it"
            said += f"; the content is the one kept from the failed pull before ({because})"
        if self.passed:
            said += f"; files passed over: {len(self.passed)}"
        return said

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        members: dict[str, object | None] = {
            "source": self.source,
            "outcome": self.outcome.value,
            "asked": dict(self.asked) or None,
            "status": self.status,
            "message": self.message,
            "hint": self.hint,
            "resumed": self.resumed or None,
            "unreachable": self.unreachable,
        }
        shown = {name: value for name, value in members.items() if value is not None}
        return {**shown, **listed(self.passed, limit=PASSED_SHOWN_MAX)}

    def _exchange(self) -> str:
        if self.status is None:
            return ""
        asked = ", ".join(f"{name}: {value}" for name, value in self.asked.items())
        return f" (status {self.status}, {f'asked with {asked}' if asked else 'asked without validators'})"


def poll_lines(poll: object) -> list[str]:
    """The `poll` of an answer as lines for people; none if it has none."""
    if not isinstance(poll, dict):
        return []
    passed = poll.get("passedOver")
    files = [f"{file['message']} ({file['hint']})" for file in passed or () if isinstance(file, dict)]
    more = [f"and {poll['passedOverMore']} more files"] if poll.get("passedOverMore") else []
    message, hint = str(poll.get("message")), poll.get("hint")
    first = message if files or not hint else f"{message} ({hint})"
    return [first, *files, *more]


_SENTENCES = {
    Outcome.TAKEN: "new data was committed",
    Outcome.NOTHING_NEW: "the source was read and has no rows that are new",
    Outcome.NOT_MODIFIED: "the source has not changed since the last pull",
    Outcome.SAME_CONTENT: "the source sent the content that was taken before",
    Outcome.UNCACHEABLE: "the source is uncacheable: it sends no ETag and no Last-Modified, its content has changed, "
    "and appending it would repeat rows, so nothing was taken",
}
UNCACHEABLE_HINT = (
    "fetchUncacheable (odf pull --fetch-uncacheable) appends it all; a merge with a primary key takes only new rows"
)

"""Members of the JSON text that is a job's request, read by name and type.

Invariant: whatever is wrong with a text, the error is Corrupt, and it names the job and the member.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from odfabric.errors import Corrupt, InvalidName
from odfabric.model.jobs.job import Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestMembers:
    """The members of one job's request. All methods raise Corrupt."""

    job: Job
    values: Mapping[str, Any]
    path: str = ""

    @classmethod
    def of(cls, job: Job) -> RequestMembers:
        """The members of a request. Raises Corrupt for what is no JSON object."""
        try:
            values = json.loads(job.request)
        except (ValueError, RecursionError):
            raise _damaged(job, "it is no JSON") from None
        if not isinstance(values, dict):
            raise _damaged(job, "it is no JSON object")
        return cls(job, values)

    def has(self, name: str) -> bool:
        """Whether the member is there and not null."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        """A text."""
        return self._of_type(name, str)

    def text_or_none(self, name: str) -> str | None:
        """A text; None if it is null or missing."""
        return self.text(name) if self.has(name) else None

    def number(self, name: str) -> int:
        """A whole number."""
        return self._of_type(name, int)

    def flag(self, name: str) -> bool:
        """A Boolean."""
        return self._of_type(name, bool)

    def flag_or_false(self, name: str) -> bool:
        """A Boolean; False if it is missing."""
        return self.flag(name) if self.has(name) else False

    def many(self, name: str, wanted: type[T]) -> Sequence[T]:
        """A list of values of one type."""
        values: list[Any] = self._of_type(name, list)
        for value in values:
            if type(value) is not wanted:
                raise _damaged(
                    self.job, f"{self.path}{name} has a {type(value).__name__} among its values, not {wanted.__name__}"
                )
        return values

    def inner(self, name: str) -> RequestMembers:
        """An object."""
        return RequestMembers(self.job, self._of_type(name, dict), f"{self.path}{name}.")

    def parsed(self, name: str, parse: Callable[[str], T]) -> T:
        """What a text stands for. `parse` raises ValueError or InvalidName."""
        text = self.text(name)
        try:
            return parse(text)
        except (ValueError, InvalidName):
            raise _damaged(self.job, f"{self.path}{name} has a wrong form") from None

    def parsed_or_none(self, name: str, parse: Callable[[str], T]) -> T | None:
        """What a text stands for; None if it is null or missing."""
        return self.parsed(name, parse) if self.has(name) else None

    def _of_type(self, name: str, wanted: type[T]) -> T:
        value = self.values.get(name)
        if type(value) is not wanted:
            problem = "is missing" if name not in self.values else f"is {type(value).__name__}, not {wanted.__name__}"
            raise _damaged(self.job, f"{self.path}{name} {problem}")
        return value


def _damaged(job: Job, problem: str) -> Corrupt:
    return Corrupt(
        f"the request of a {job.kind.value} job is damaged: {problem}",
        object_name=f"job {job.id}",
        hint="ask for the work again; this job cannot be done",
    )

"""Patterns of file paths, matched part by part.

Owns the meaning of `filesGlob`: `*`, `?` and `[...]` within a part, `**` for any number of folders, hidden names only where the
pattern asks for them, case counts. Invariant: matching is a walk over sets of positions, so its cost grows with the pattern times
the path and no pattern can make it explode. Not here: folders and files (`ports.sources.polling_files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property

from odfabric.errors import InvalidRequest, LimitExceeded

PATTERN_CHARACTERS_MAX = 1024

_ANY_FOLDERS = "**"
_MAGIC = re.compile(r"[*?\[]")


def is_magic(part: str) -> bool:
    """Whether a part of a path stands for more than itself."""
    return _MAGIC.search(part) is not None


@dataclass(frozen=True)
class PathPattern:
    """The parts of a relative pattern. Positions count parts that are matched already."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if ".." in self.parts:
            raise InvalidRequest("a pattern cannot go up with '..' after a wildcard")
        if sum(map(len, self.parts)) > PATTERN_CHARACTERS_MAX:
            raise LimitExceeded(
                "the pattern is too long", limit="pattern_characters_max", maximum=PATTERN_CHARACTERS_MAX
            )

    @property
    def start(self) -> frozenset[int]:
        """Positions before the first part."""
        return self._closed({0})

    def step(self, positions: frozenset[int], name: str) -> frozenset[int]:
        """Positions after a part of a path; empty if nothing below it can match."""
        reached: set[int] = set()
        for position in positions:
            if position < len(self.parts) and self._fits(position, name):
                any_folders = self.parts[position] == _ANY_FOLDERS
                reached.add(position if any_folders else position + 1)
                if any_folders and position == len(self.parts) - 1:
                    # At the end `**` stands for at least one part: `a/**` is what lies in `a`, not `a`.
                    reached.add(position + 1)
        return self._closed(reached)

    def accepts(self, positions: frozenset[int]) -> bool:
        """Whether a path that led here matches."""
        return len(self.parts) in positions

    def matches(self, names: Iterable[str]) -> bool:
        """Whether the parts of a path match."""
        positions = self.start
        for name in names:
            positions = self.step(positions, name)
        return self.accepts(positions)

    def _fits(self, position: int, name: str) -> bool:
        part = self.parts[position]
        if name.startswith(".") and not part.startswith("."):
            return False
        return part == _ANY_FOLDERS or self._expressions[position].match(name) is not None

    @cached_property
    def _expressions(self) -> list[re.Pattern[str]]:
        return [re.compile(translate(part)) for part in self.parts]

    def _closed(self, positions: set[int]) -> frozenset[int]:
        closed = set(positions)
        for position in range(len(self.parts) - 1):
            if position in closed and self.parts[position] == _ANY_FOLDERS:
                closed.add(position + 1)
        return frozenset(closed)

"""Suggested corrections: a refused statement with names and order corrected.

Owns the changes to the text, and the way back from its places to those of the statement as it was written. Invariant: a change touches the
words that a refusal names and no others; where these words stand is known, or they stand in one place only. Not here: whether the changed
statement is accepted (`odfabric_engine_spark.sql.corrections.collect_errors`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.sql.corrections.unknown_names import parts_of
from odfabric_engine_spark.sql.source_positions import (
    Word,
    line_and_column,
    offset_of,
    without_last_semicolon,
    words_of,
)

UNKNOWN_COLUMN = "unresolved-column"
"""The rule by which a column is refused that is not there."""
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_DEPTH = {"(": 1, ")": -1}


@dataclass(slots=True)
class CorrectedText:
    """A statement as it was written, and as it is now.

    `is_same`: both say the same, so that this one may be offered.

    `has_gaps`: nothing stands where names are unknown, so it may be refused for that, too.
    """

    written: str
    text: str = ""
    is_same: bool = True
    has_gaps: bool = False
    _edits: list[tuple[int, int, int]] = field(default_factory=list)  # offset, characters removed, characters added

    def __post_init__(self) -> None:
        self.text = without_last_semicolon(self.written)

    @property
    def is_changed(self) -> bool:
        """Whether anything is written otherwise now."""
        return bool(self._edits)

    def place_written(self, line: int | None, column: int | None) -> tuple[int | None, int | None]:
        """Where in the statement as it was written a place of this one is."""
        if line is None or column is None:
            return line, column
        offset = offset_of(self.text, line, column)
        for begin, removed, added in reversed(self._edits):
            if offset >= begin + added:
                offset += removed - added
            elif offset > begin:
                offset = begin
        return line_and_column(self.written, min(offset, len(self.written)))

    def correct_name(self, problem: InvalidQuery) -> bool:
        """Writes the name that a refusal knows to be meant; whether it is certain where.

        Places before it stay.
        """
        if problem.instead is None:
            return False
        written, meant = problem.instead
        words = self._name_at(written, problem)
        if words is None:
            return False
        if len(written) == len(meant):
            pairs = [pair for pair in zip(words[::2], meant, written, strict=True) if pair[1] != pair[2]]
            for word, new, _ in reversed(pairs):
                self._replace(word.begin, word.end, self._as_written(word, new))
        else:
            self._replace(words[0].begin, words[-1].end, ".".join(map(_quoted, meant)))
        return True

    def leave_out(self, problem: InvalidQuery) -> bool:
        """Drop an unknown column only to find other errors; whether its place is certain."""
        words = self._name_at(parts_of(problem.message), problem) if problem.place.rule == UNKNOWN_COLUMN else None
        if words is None:
            return False
        self._replace(words[0].begin, words[-1].end, "null")
        self.is_same, self.has_gaps = False, True
        return True

    def correct_order(self, problem: InvalidQuery) -> bool:
        """Remove the result's order, or move it with LIMIT into FROM; whether it worked.

        First rows without an order are no certain ones: without them the statement is another one, which only says what else is wrong.
        """
        line, column = problem.place.line, problem.place.column
        if problem.place.rule not in ("order-by", "limit") or line is None or column is None:
            return False
        at = offset_of(self.text, line, column)
        behind = [word for word in words_of(self.text) if word.begin >= at]
        if not behind or behind[0].begin != at:
            return False
        if behind[0].known_by == "order" and problem.place.rule == "limit":
            # Only of the whole result are rows refused that are the first of an order.
            several_lines = "--" in self.text or "\n" in self.text
            opening, closing = ("select * from (\n", "\n)") if several_lines else ("select * from (", ")")
            self._replace(len(self.text), len(self.text), closing)
            self._replace(0, 0, opening)
            return True
        if not _is_last_clause(behind):
            return False
        if any(word.known_by == "window" for word in behind):
            return False
        self.is_same = self.is_same and problem.place.rule == "order-by"
        begin = len(self.text[:at].rstrip())
        self._replace(begin, len(self.text), "")
        return True

    def _name_at(self, written: Sequence[str], problem: InvalidQuery) -> list[Word] | None:
        """Where a name stands at which a refusal points."""
        names = self._names(written)
        line, column = problem.place.line, problem.place.column
        if line is not None and column is not None:
            at = offset_of(self.text, line, column)
            # A refusal points at the first part of a name: `s` of `s.member`.
            names = (
                [words for words in names if words[0].begin == at]
                or [words for words in names if self._chain_begin(words[0]) == at]
                or names
            )
        return names[0] if len(names) == 1 else None

    def _names(self, written: Sequence[str]) -> list[list[Word]]:
        """Where a name stands, with the dots between its parts."""
        words = list(words_of(self.text))
        count = 2 * len(written) - 1
        found = [words[at : at + count] for at in range(len(words) - count + 1)]
        return [each for each in found if self._is_name(each, written)]

    def _is_name(self, words: Sequence[Word], written: Sequence[str]) -> bool:
        return all(word.known_by == "." for word in words[1::2]) and [
            self._unquoted(word) for word in words[::2]
        ] == list(written)

    def _unquoted(self, word: Word) -> str:
        text = self.text[word.begin : word.end]
        return text[1:-1].replace("``", "`") if text[:1] == "`" else text

    def _chain_begin(self, name: Word) -> int:
        """Where the name with dots begins of which a word is a part."""
        words = [word for word in words_of(self.text) if word.end <= name.end]
        at = len(words) - 1
        while at >= 2 and words[at - 1].known_by == ".":
            at -= 2
        return words[at].begin

    def _as_written(self, word: Word, name: str) -> str:
        return _quoted(name) if self.text[word.begin] == "`" or not _PLAIN.fullmatch(name) else name

    def _replace(self, begin: int, end: int, new: str) -> None:
        self._edits.append((begin, end - begin, len(new)))
        self.text = self.text[:begin] + new + self.text[end:]


def _is_last_clause(words: Sequence[Word]) -> bool:
    """Whether these words are clauses of the whole statement.

    No bracket ends among them that begins before, and no pipe follows.
    """
    depth = 0
    for word in words:
        depth += _DEPTH.get(word.known_by, 0)
        if depth < 0 or (depth == 0 and word.known_by == "|"):
            return False
    return True


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

"""Where the characters of a text value stand in the file that it was read from.

Owns the way from a place within a value (a query in a manifest) to a place of the file, for every form in which YAML and JSON write
text: block, folded, plain and quoted. They differ in white space and escapes only, so characters that are no white space are
counted. Invariant: a place is reported only if these characters are the same in the file and in the value. Not here: finding the value
(`formats.manifests.yaml_documents`, `formats.manifests.manifest_documents`), what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_CODE_DIGITS = {"x": 2, "u": 4, "U": 8}
_BLOCK = ("|", ">")
_ESCAPED = dict(zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True))


@dataclass(frozen=True, slots=True)
class WrittenScalar:
    """The characters `[start, end)` of a text, which write a value.

    `style` is the first of them where YAML gives it a meaning.
    """

    text: str
    start: int
    end: int
    style: str | None

    def begins(self) -> tuple[int, int]:
        """Line and column, from 1, of the first non-space character, or the missing one."""
        return self._position(next((start for _, start, _ in self._characters()), self.start))

    def locate(self, value: str, line: int, column: int) -> tuple[int, int] | None:
        """Line and column of the file for those of the value, all from 1.

        None if that cannot be reported for sure.

        The end of the value, and white space within it, stand behind the character before them.
        """
        offset = _offset(value, line, column)
        solid = [character for character in value if not character.isspace()]
        written = list(self._characters())[: len(solid)]
        if offset is None or [character for character, _, _ in written] != solid:
            return None
        before = sum(not character.isspace() for character in value[:offset])
        if offset < len(value) and not value[offset].isspace():
            return self._position(written[before][1])
        return self._position(written[before - 1][2]) if before else None

    def _position(self, index: int) -> tuple[int, int]:
        return self.text.count("\n", 0, index) + 1, index - (self.text.rfind("\n", 0, index) + 1) + 1

    def _characters(self) -> Iterator[tuple[str, int, int]]:
        """Characters of the value that are no white space, and where each begins and ends."""
        start, end = self.start, self.end
        if self.style in _BLOCK:
            start = self.text.find("\n", start, end) + 1 or end  # what is behind `|` is no content
        elif self.style is not None:
            start, end = start + 1, end - 1
        while start < end:
            character, length = self._character(start)
            if not character.isspace():
                yield character, start, start + length
            start += length

    def _character(self, index: int) -> tuple[str, int]:
        """The character that is written at `index`, and of how many it is written."""
        written = self.text[index]
        if self.style == "'" and written == "'":
            return written, 2
        if self.style != '"' or written != "\\":
            return written, 1
        escaped = self.text[index + 1]
        digits = _CODE_DIGITS.get(escaped)
        if digits is not None:
            return chr(int(self.text[index + 2 : index + 2 + digits], 16)), 2 + digits
        return _ESCAPED.get(escaped, escaped), 2


def _offset(value: str, line: int, column: int) -> int | None:
    """The index of a place in a value, up to its end; None beyond that."""
    lines = value.split("\n")
    if not 1 <= line <= len(lines) or not 1 <= column <= len(lines[line - 1]) + 1:
        return None
    return sum(len(each) + 1 for each in lines[: line - 1]) + column - 1

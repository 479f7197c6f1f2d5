"""Patterns of paths: against a plain oracle, and in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.sources.path_pattern import PATTERN_CHARACTERS_MAX, PathPattern, is_magic
from odfabric.errors import InvalidRequest, LimitExceeded

NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
PARTS = st.one_of(st.just("**"), st.text("ab.*?", min_size=1, max_size=3).filter(lambda part: part not in {".", ".."}))


def oracle(parts: list[str]) -> re.Pattern[str]:
    """The pattern as one expression over the path with a slash after each part."""
    pieces = []
    for at, part in enumerate(parts):
        if part == "**":
            pieces.append(r"(?:(?!\.)[^/]+/)" + ("+" if at == len(parts) - 1 else "*"))
        else:
            single = "".join({"*": "[^/]*", "?": "[^/]"}.get(sign, re.escape(sign)) for sign in part)
            pieces.append(("" if part.startswith(".") else r"(?!\.)") + single + "/")
    return re.compile("".join(pieces))


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(NAMES, min_size=1, max_size=4))
def test_matches_what_an_expression_of_the_whole_matches(parts: list[str], names: list[str]) -> None:
    expected = oracle(parts).fullmatch("".join(name + "/" for name in names)) is not None
    assert PathPattern(tuple(parts)).matches(names) == expected


def test_many_wildcards_stay_cheap() -> None:
    pattern = PathPattern(tuple(["**", "a*a*a*a*a*b"] * 40))
    assert not pattern.matches(["a" * 200] * 200)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        PathPattern(("*", "..", "x"))
    PathPattern(("a" * PATTERN_CHARACTERS_MAX,))
    with pytest.raises(LimitExceeded):
        PathPattern(("a" * PATTERN_CHARACTERS_MAX, "b"))


def test_which_parts_are_magic() -> None:
    assert [part for part in ("a", "*", "a?b", "[ab]", "a.b", "-", "**") if is_magic(part)] == [
        "*",
        "a?b",
        "[ab]",
        "**",
    ]

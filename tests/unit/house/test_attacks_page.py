"""Every attack on the page of attacks on transfer has a test with its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/attacks-on-transfer.md"
HEADINGS = ["attack", "what the node does", "error", "test"]
TEST = re.compile(r"`([\w/]+)::(\w+)`", re.ASCII)
CODE = re.compile(r"`([a-z0-9-]+)`", re.ASCII)


def rows() -> Iterator[list[str]]:
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells != HEADINGS:
            yield cells


@lru_cache
def sources() -> str:
    """Where codes and rules of errors are written."""
    folders = ("domain/heads", "formats/heads")
    files = [
        ROOT / "src/odfabric/errors.py",
        *(file for each in folders for file in (ROOT / "src/odfabric" / each).glob("*.py")),
    ]
    return "".join(file.read_text() for file in files)


@lru_cache
def names_in(stem: str) -> tuple[frozenset[str], ...]:
    """Names of the tests in each file of that name."""
    files = sorted((ROOT / "tests").rglob(f"{stem}.py"))
    return tuple(
        frozenset(
            node.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        )
        for file in files
    )


@pytest.mark.parametrize("cells", list(rows()), ids=lambda cells: re.sub(r"\W+", "-", cells[0])[:60])
def test_every_attack_has_an_answer_an_error_and_a_test(cells: list[str]) -> None:
    attack, answer, error, tests = cells
    assert all((attack, answer))
    assert error == "none" or CODE.findall(error), f"{attack}: which error?"
    assert [code for code in CODE.findall(error) if f'"{code}"' not in sources()] == []
    assert TEST.findall(tests), f"{attack}: which test?"
    for stem, name in TEST.findall(tests):
        found = names_in(stem)
        assert len(found) == 1, f"{stem} is the name of {len(found)} files"
        assert name in found[0], f"{stem} has no {name}"


def test_no_attack_is_listed_twice() -> None:
    attacks = [cells[0] for cells in rows()]
    assert len(attacks) == len(set(attacks)) > 1

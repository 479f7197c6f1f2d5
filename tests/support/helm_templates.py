"""Renders the few constructs of Helm's templates that our chart uses, so that it can be checked where no Helm is.

Known: values and the release's name and revision, `if`/`else`/`end` over one value, `toYaml .. | nindent`. Anything else fails: a
chart that needs more needs a real Helm here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*(-?)\}\}")
_PLAIN = re.compile(r"\.(?:Values|Release)(?:\.\w+)+", re.ASCII)
_BLOCK = re.compile(r"toYaml (\.Values(?:\.\w+)+) \| nindent (\d+)", re.ASCII)


def rendered(chart: Path, changes: Mapping[str, Any] | None = None, *, release: str = "node") -> list[dict[str, Any]]:
    """All objects of a chart, with changes to its values by dotted name."""
    reader = YAML(typ="safe", pure=True)
    values = reader.load((chart / "values.yaml").read_text())
    for name, value in (changes or {}).items():
        *folders, last = name.split(".")
        place = values
        for folder in folders:
            place = place[folder]
        assert last in place, f"values.yaml does not know {name}"
        place[last] = value
    known = {"Values": values, "Release": {"Name": release, "Revision": 1}}
    texts = [_text(template.read_text(), known) for template in sorted((chart / "templates").glob("*.yaml"))]
    return [each for text in texts for each in reader.load_all(text) if each]


def _text(template: str, known: Mapping[str, Any]) -> str:
    out, shown, end = [], [True], 0
    for action in _ACTION.finditer(template):
        assert not action[4], "whitespace after an action is not trimmed here"
        if all(shown):
            out.append(template[end : action.start()] + ("" if action[2] else action[1]))
        end = action.end()
        word = action[3]
        if word.startswith("if "):
            shown.append(bool(_value(word.removeprefix("if "), known)))
        elif word == "else":
            shown[-1] = not shown[-1]
        elif word == "end":
            shown.pop()
        elif all(shown):
            out.append(_shown(word, known))
    assert shown == [True], "an `if` without its end"
    return "".join(out) + template[end:]


def _shown(word: str, known: Mapping[str, Any]) -> str:
    block = _BLOCK.fullmatch(word)
    if block is None:
        return str(_value(word, known))
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(_value(block[1], known), stream)
    indent = "\n" + " " * int(block[2])
    return indent + indent.join(stream.getvalue().splitlines())


def _value(word: str, known: Mapping[str, Any]) -> Any:
    assert _PLAIN.fullmatch(word), f"`{word}` is not rendered here"
    found: Any = known
    for name in word.split(".")[1:]:
        assert name in found, f"values.yaml does not know {word}"
        found = found[name]
    return found

"""Writing YAML: block style, lists not indented under their key, given order.

Owns the quoting: what is written reads back as the same JSON value in YAML 1.2, and strings that YAML 1.1 takes for
something else (`yes`, `1:30`, `1.0`) are quoted, except timestamps, which manifests of the specification show bare. ruamel.yaml, which reads
them here, writes `yes` bare and quotes timestamps, so it does not do.
Not here: which keys there are. Source: YAML 1.2.2; manifests of the specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from odfabric.formats.json_values.canonical_json import JsonValue, float_text

KEY_CHARACTERS_MAX = 128
"""Longer keys are written in the explicit form `? key`, because readers look only so far for the colon."""

_INDENT = "  "
_PLAIN = re.compile(r"(?!\.\.\.)[A-Za-z0-9_./(][^\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]*")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
# What YAML 1.1 or 1.2 may take for a boolean, null, a number (in base 60 too), or a date.
_NOT_TEXT = re.compile(
    r"y|n|yes|no|on|off|true|false|null|\.inf|\.nan|0[xob][\da-f_]*|[\d.][\d_.:]*(?:e[-+]?\d*)?|\d{4}-\d\d?-\d\d?.*",
    re.ASCII | re.IGNORECASE,
)
_LINE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]*")
_UNPRINTED = re.compile(r"[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def dump_yaml(value: JsonValue) -> str:
    """One document as YAML, ending with a line break.

    Raises ValueError for NaN and infinities.
    """
    return "\n".join(_lines(value, "", "")) + "\n"


def _lines(value: JsonValue, head: str, indent: str) -> Iterator[str]:
    """The lines of a value behind `head`, further ones indented by `indent` or more."""
    if isinstance(value, dict) and value:
        for number, (key, member) in enumerate(value.items()):
            yield from _member(key, member, head if number == 0 else indent, indent)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _lines(item, f"{head if number == 0 else indent}- ", indent + _INDENT)
    elif isinstance(value, str) and _is_literal(value):
        yield f"{head}|" if value.endswith("\n") else f"{head}|-"
        for line in value.removesuffix("\n").split("\n"):
            yield (indent or _INDENT) + line if line else ""
    else:
        yield head + _scalar(value)


def _member(key: str, member: JsonValue, head: str, indent: str) -> Iterator[str]:
    nested = isinstance(member, dict | list) and bool(member)
    if len(key) > KEY_CHARACTERS_MAX:
        yield f"{head}? {_text(key)}"
        yield from _lines(member, f"{indent}: ", indent + _INDENT)
    elif nested:
        yield f"{head}{_text(key)}:"
        inner = indent if isinstance(member, list) else indent + _INDENT
        yield from _lines(member, inner, inner)
    else:
        yield from _lines(member, f"{head}{_text(key)}: ", indent + _INDENT)


def _scalar(value: JsonValue) -> str:
    match value:
        case str():
            return _text(value)
        case float():
            return float_text(value)
        case _:
            return json.dumps(value)


def _text(text: str) -> str:
    if _is_plain(text):
        return text
    if _LINE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _is_plain(text: str) -> bool:
    if _TIMESTAMP.fullmatch(text):
        return True
    ends_well = not text.endswith((":", " "))
    return (
        bool(_PLAIN.fullmatch(text))
        and ends_well
        and ": " not in text
        and " #" not in text
        and not _NOT_TEXT.fullmatch(text)
    )


def _is_literal(text: str) -> bool:
    lines = text.removesuffix("\n").split("\n")
    if "\n" not in text or lines[0][:1] in ("", " ", "\t") or not lines[-1]:
        return False
    return all(_LINE.fullmatch(line) for line in lines)

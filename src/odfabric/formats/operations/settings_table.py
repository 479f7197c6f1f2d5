"""Tables of settings for people: names, units, defaults and what they are.

Owns the form of a row and the units, which are the endings of names. Not here: the settings (`odfabric.settings`, and those of the
engine), and the pages that hold tables of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

_MIB = 1024**2
_GIB = 1024**3
UNITS = (
    ("_bytes_per_s_min", "bytes/s"),
    ("_bytes_max", "bytes"),
    ("_mib", "MiB"),
    ("_s_max", "s"),
    ("_s", "s"),
    ("_rows_max", "rows"),
    ("_blocks_max", "blocks"),
)

_HEAD = """\
| setting | unit | default | what |
|---|---|---|---|
"""


def settings_table(settings: Iterable[tuple[str, object, str]]) -> str:
    """A table in Markdown of (name, default, description).

    Raises TypeError for a default that has no form in it.
    """
    rows = (
        f"| `{name}` | {unit_of(name)} | {_default(default)} | {description.replace('|', '/')} |\n"
        for name, default, description in settings
    )
    return _HEAD + "".join(rows)


def unit_of(name: str) -> str:
    """The unit that a setting's name ends with.

    Empty for a number of things or no number.
    """
    return next((unit for ending, unit in UNITS if name.endswith(ending)), "")


def _default(default: object) -> str:
    match default:
        case None | "":
            return "-"
        case bool() as flag:
            return json.dumps(flag)
        case int() as number if number and number % _GIB == 0:
            return f"{number // _GIB} Gi"
        case int() as number if number and number % _MIB == 0:
            return f"{number // _MIB} Mi"
        case int() | float() as number:
            return f"{number:,}".replace(",", " ").removesuffix(".0")
        case tuple() | dict() as several:
            return f"`{json.dumps(several)}`"
        case str() | Path() as text:
            return f"`{text}`"
        case other:
            raise TypeError(f"a default of {type(other).__name__} has no form on the page")

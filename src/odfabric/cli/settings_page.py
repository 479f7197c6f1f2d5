"""docs/settings.md from the table of settings: `.odf/venv/bin/python -m odfabric.cli.settings_page > docs/settings.md`.

Owns the page's form; names, defaults and words are those of `odfabric.settings`. Units are the endings of names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from odfabric.settings import GIB, MIB, Settings

HEAD = """\
# Settings

Made from `src/odfabric/settings.py` by `.odf/venv/bin/python -m odfabric.cli.settings_page > docs/settings.md`.

Each is an environment variable: `ODF_` and the name in capitals, such as `ODF_PUSH_WAIT_S_MAX=5`. Lists and maps are JSON.
What a limit refuses names the limit in its error. Beside these, `ODF_LOG_LEVEL` (default INFO) says how much api and worker log.

| setting | unit | default | what |
|---|---|---|---|
"""

UNITS = (
    ("_bytes_per_s_min", "bytes/s"),
    ("_bytes_max", "bytes"),
    ("_mib", "MiB"),
    ("_s_max", "s"),
    ("_s", "s"),
    ("_rows_max", "rows"),
    ("_blocks_max", "blocks"),
)


def settings_page() -> str:
    """The page."""
    return HEAD + "".join(
        f"| `{name}` | {unit_of(name)} | {_default(field)} | {(field.description or '').replace('|', '/')} |\n"
        for name, field in Settings.model_fields.items()
    )


def unit_of(name: str) -> str:
    """The unit that a setting's name ends with; empty for a number of things or no number."""
    return next((unit for ending, unit in UNITS if name.endswith(ending)), "")


def _default(field: FieldInfo) -> str:
    match field.default:
        case None:
            return "-"
        case bool() as flag:
            return json.dumps(flag)
        case int() as number if number and number % GIB == 0:
            return f"{number // GIB} Gi"
        case int() as number if number and number % MIB == 0:
            return f"{number // MIB} Mi"
        case int() | float() as number:
            return f"{number:,}".replace(",", " ").removesuffix(".0")
        case tuple() | dict() as several:
            return f"`{json.dumps(several)}`"
        case str() | Path() as text:
            return f"`{text}`"
        case other:
            raise TypeError(f"a default of {type(other).__name__} has no form on the page")


if __name__ == "__main__":
    sys.stdout.write(settings_page())

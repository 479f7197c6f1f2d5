"""Settings as the running process has them, for its admins.

Invariant: no value holds a secret. What is declared as one is only said to be set; of an address nothing is shown that could be a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import SecretStr

from odfabric.formats.operations.settings_table import unit_of
from odfabric.settings import Settings

# From the first `//` to the last `@`, because a password may hold anything but is never behind it.
_CREDENTIALS = re.compile(r"//.*@")
_PARAMETERS = re.compile(r"\?.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInForce:
    """A setting; `variable` is its environment variable, `value` a text for people."""

    variable: str
    unit: str
    value: str
    is_default: bool
    description: str


def settings_in_force(settings: Settings) -> Sequence[SettingInForce]:
    """All of them, in the order of the table."""
    values = settings.model_dump(mode="json")
    return [
        SettingInForce(
            variable=f"ODF_{name.upper()}",
            unit=unit_of(name),
            value=_shown(getattr(settings, name), values[name]),
            is_default=getattr(settings, name) == field.get_default(call_default_factory=True, validated_data={}),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(value: object, plain: object) -> str:
    if isinstance(value, SecretStr):
        return "set"
    if plain is None:
        return ""
    if isinstance(plain, bool | list | dict):
        return json.dumps(plain, ensure_ascii=False)
    if isinstance(plain, int | float):
        return f"{plain:,}".removesuffix(".0")
    text = str(plain)
    return _PARAMETERS.sub("?…", _CREDENTIALS.sub("//…@", text)) if "://" in text else text

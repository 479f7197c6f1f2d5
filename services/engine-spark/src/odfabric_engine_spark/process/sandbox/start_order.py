"""What the engine behind its walls must know, as one line.

Owns its form: the command line, environment and token file of outside are not seen inside.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from odfabric_engine_spark.process.sandbox.walls import Layer
from odfabric_engine_spark.spark.settings import EngineSettings

_FOLDERS = {"exchange", "cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the engine behind the walls must know."""

    settings: EngineSettings
    listen: str
    token: str
    ready_file: Path
    promised: frozenset[Layer]

    def to_line(self) -> bytes:
        """As it is sent."""
        value = {
            "settings": asdict(self.settings),
            "listen": self.listen,
            "token": self.token,
            "ready_file": self.ready_file,
            "promised": sorted(self.promised),
        }
        return json.dumps(value, default=str).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        """As it arrived."""
        given = json.loads(line)
        settings: dict[str, Any] = {
            setting.name: Path(value) if setting.name in _FOLDERS and value is not None else value
            for setting in fields(EngineSettings)
            for value in [given["settings"][setting.name]]
        }
        return cls(
            settings=EngineSettings(**settings),
            listen=given["listen"],
            token=given["token"],
            ready_file=Path(given["ready_file"]),
            promised=frozenset(map(Layer, given["promised"])),
        )

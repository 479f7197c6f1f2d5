"""The file that says where the engine listens.

Owns its form: JSON with `address` and `pid`, and `compat_address` where `engine.Engine` is offered; there only when calls are
taken.
"""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_ready_file(file: Path, address: str, compat_address: str | None = None) -> None:
    """Writes it whole or not at all."""
    found = {"address": address, "pid": os.getpid()}
    if compat_address is not None:
        found["compat_address"] = compat_address
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(found))
    os.replace(unfinished, file)

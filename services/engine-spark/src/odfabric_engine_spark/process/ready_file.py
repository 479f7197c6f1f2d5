"""The file that says where the engine listens.

Owns its form: JSON with `address` and `pid`, and `compat_address` where `engine.Engine` is offered. Invariant: it is there only
while calls are taken; an engine that ends removes it first.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


def write_ready_file(file: Path, address: str, compat_address: str | None = None) -> None:
    """Writes it whole or not at all."""
    found = {"address": address, "pid": os.getpid()}
    if compat_address is not None:
        found["compat_address"] = compat_address
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(found))
    os.replace(unfinished, file)


def remove_ready_file(file: Path) -> None:
    """Remove the file if it is this process's; the next engine may have its own."""
    with suppress(OSError, ValueError):
        if json.loads(file.read_text())["pid"] == os.getpid():
            file.unlink()

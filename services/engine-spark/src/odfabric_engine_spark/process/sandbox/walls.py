"""The walls by name, and which of them stand around this process.

Owns the names that operators see. Invariant: what is reported was looked at from inside, not assumed. Not here: putting them up.
"""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from pathlib import Path

ROOT_NAME = "odf-engine"
"""What the root of a sandbox is called in the table of mounts."""
INIT_MODULE = "odfabric_engine_spark.process.sandbox.enter"


class Sandbox(StrEnum):
    """What the operator wants."""

    AUTO = "auto"
    """The strongest that the machine offers."""
    SEALED = "sealed"
    """No network and a file system of its own, or no start."""
    UNSEALED = "unsealed"
    """None: whatever the surroundings (a container) provide."""


class Layer(StrEnum):
    """One wall."""

    NO_NETWORK = "no-network"
    """There is no network device but the loopback of a network of its own."""
    OWN_FILES = "own-files"
    """The root is a file system made for it."""
    OWN_PROCESSES = "own-processes"
    """It sees its own processes only."""
    LANDLOCK = "landlock"
    """Files are opened by an explicit list."""
    SECCOMP = "seccomp"
    """System calls are filtered."""
    NO_NEW_PRIVILEGES = "no-new-privileges"
    """Executing gains nothing."""


NAMESPACES = frozenset({Layer.NO_NETWORK, Layer.OWN_FILES, Layer.OWN_PROCESSES})
RESTRICTIONS = frozenset({Layer.LANDLOCK, Layer.SECCOMP, Layer.NO_NEW_PRIVILEGES})


def layers_around_us() -> frozenset[Layer]:
    """The walls that stand, seen from inside."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    seen = {
        Layer.NO_NETWORK: {name for _, name in socket.if_nameindex()} == {"lo"},
        Layer.OWN_FILES: _root_name() == ROOT_NAME,
        Layer.OWN_PROCESSES: INIT_MODULE.encode() in Path("/proc/1/cmdline").read_bytes(),
        Layer.LANDLOCK: _root_is_closed(),
        Layer.SECCOMP: status.get("Seccomp") == "2",
        Layer.NO_NEW_PRIVILEGES: status.get("NoNewPrivs") == "1",
    }
    return frozenset(layer for layer, stands in seen.items() if stands)


def _root_name() -> str:
    """The source of what is mounted on `/`."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, after = line.partition(" - ")
        if fields.split()[4] == "/":
            return after.split()[1]
    return ""


def _root_is_closed() -> bool:
    # Everybody may list the root of any system; a Landlock rule for it is never made.
    try:
        os.listdir("/")
    except PermissionError:
        return True
    return False

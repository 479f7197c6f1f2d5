"""Checks whether this machine can run an engine, by the engine's own code.

It runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from odfabric.adapters.engine_process.launcher import ENVIRONMENT
from odfabric.errors import Determinate
from odfabric.model.node.surroundings import EngineMachine

_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


class ThisMachine:
    """An EngineMachineProbe."""

    def __init__(self, *, wait_s_max: float) -> None:
        self._wait_s_max = wait_s_max

    def look(self) -> EngineMachine:
        """See the port."""
        command = [sys.executable, "-P", "-m", "odfabric_engine_spark.process.machine_report"]
        environment = {name: value for name, value in os.environ.items() if ENVIRONMENT.fullmatch(name)}
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._wait_s_max,
                env=environment,
                check=True,
            )
            told = json.loads(ended.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            hint = "install the engine's part of this environment"
            raise Determinate(f"the engine's code cannot be run: {type(error).__name__}", hint=hint) from error
        return EngineMachine(
            java=told["java"],
            java_problem=told["javaProblem"],
            namespaces=told["namespaces"],
            landlock=told["landlock"],
            available_mib=_available_mib(),
        )


def _available_mib() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as told:
            found = _AVAILABLE.search(told.read())
    except OSError:
        return None
    return int(found[1]) // 1024 if found else None

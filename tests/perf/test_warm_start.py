"""How long `./odf` takes before the command itself runs.

A measurement: `./odf test -m perf -s`.
"""

import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def seconds(*command: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd="/", check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - started


def test_warm_start() -> None:
    whole = statistics.median(seconds(str(ROOT / "odf"), "--help") for _ in range(9))
    python = str(ROOT / ".odf/venv/bin/python")
    command_alone = statistics.median(seconds(python, "-P", "-m", "odfabric.cli", "--help") for _ in range(9))
    print(f"\nodf --help: {whole:.3f} s, of which the launcher {whole - command_alone:.3f} s")
    assert whole < 1.0

"""Generated code is what the .proto files give: unedited and up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GENERATED = ROOT / "src/odfabric/generated/engine_v1"


def test_regeneration_gives_the_same_files(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "proto/generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60)
    fresh = {path.name: path.read_bytes() for path in (tmp_path / "odfabric/generated/engine_v1").glob("*.py*")}
    assert fresh == {path.name: path.read_bytes() for path in GENERATED.glob("*.py*")}
    assert "engine_pb2.pyi" in fresh

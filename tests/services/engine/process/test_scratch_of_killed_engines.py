"""A killed engine's temporary files are removed by the next, sandbox or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ENGINE = """\
import os, signal, sys
from odfabric_engine_spark.spark.jvm.jvm_process import find_java, start_jvm

jvm = start_jvm(find_java(os.environ), memory_mib=128, options=[], wait_s_max=60)
print(jvm.scratch, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
jvm.stop(wait_s_max=20)
"""


def test_the_next_engine_removes_them(tmp_path: Path) -> None:
    def scratch_of(end: str) -> Path:
        command = [sys.executable, "-c", ENGINE, end]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=120)
        return Path(done.stdout.strip())

    left = scratch_of("killed")
    assert (left.parent, left.is_dir()) == (tmp_path, True)
    assert scratch_of("in order").parent == tmp_path
    assert list(tmp_path.iterdir()) == []

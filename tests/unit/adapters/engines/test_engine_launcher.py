"""A workspace has one engine, also after an interrupted start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from odfabric.settings import Settings
from odfabric.wiring.embedded import engine_launcher
from odfabric_engine_spark.__main__ import argument_parser
from tests.support.waiting import wait_until

ENGINE = """\
#!{python}
import json, os, sys, time
slow = {slow!r}
if os.path.exists(slow):
    with open(slow, "w") as file:
        print(os.getpid(), file=file)
    while True:
        time.sleep(0.05)
ready = sys.argv[sys.argv.index("--ready-file") + 1]
with open(ready + ".part", "w") as file:
    json.dump({{"address": f"unix:{{os.getpid()}}"}}, file)
os.replace(ready + ".part", ready)
while True:
    time.sleep(0.05)
"""
"""Looks like an engine, and is there at once; where the file `slow` is, it writes its pid there and never gets further."""

STARTER = """\
import signal
import sys
from pathlib import Path
from odfabric.settings import Settings
from odfabric.wiring.embedded import engine_launcher

# A shell that runs the tests in the background ignores this signal, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.executable = sys.argv[1]
print(engine_launcher(Settings(workspace=Path(sys.argv[2]))).ensure().address)
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_engine_whose_start_was_interrupted_is_ended(tmp_path: Path, sign: signal.Signals) -> None:
    slow, program, workspace = tmp_path / "slow", tmp_path / "engine", tmp_path / "w"
    program.write_text(ENGINE.format(python=sys.executable, slow=str(slow)))
    program.chmod(0o755)
    workspace.mkdir()
    slow.touch()
    command = [sys.executable, "-c", STARTER, str(program), str(workspace)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as starter:
        first = int(wait_until(slow.read_text, what="the start of the first engine"))
        starter.send_signal(sign)
    slow.unlink()

    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    launcher = engine_launcher(Settings(workspace=workspace))
    second = launcher.running()
    try:
        assert second is not None
        assert told.strip() == second.address == f"unix:{second.pid}", "what it says of itself, not what the first says"
        wait_until(lambda: _is_over(first), what="the end of the first engine")
    finally:
        launcher.stop()


def test_more_settings_of_the_engine_go_before_those_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, workspace = tmp_path / "engine", tmp_path / "w"
    program.write_text(ENGINE.format(python=sys.executable, slow=str(tmp_path / "slow")))
    program.chmod(0o755)
    workspace.mkdir()
    monkeypatch.setenv(
        "ODF_ENGINE_OPTIONS", '{"bound_bytes_max": 1073741824, "memory_mib": 1, "stages_by_spark": true}'
    )
    subprocess.run([sys.executable, "-c", STARTER, str(program), str(workspace)], check=True, timeout=60)
    launcher = engine_launcher(Settings(workspace=workspace))
    try:
        process = launcher.running()
        assert process is not None
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    finally:
        launcher.stop()
    found = argument_parser().parse_args(arguments[arguments.index("odfabric_engine_spark") + 1 : -1])
    assert (found.bound_bytes_max, found.stages_by_spark) == (1024**3, True)
    assert found.memory_mib == Settings(workspace=workspace).engine_memory_mib
    with pytest.raises(ValidationError):
        Settings(workspace=workspace, engine_options={"--exchange": 1})


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True

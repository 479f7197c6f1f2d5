"""The guide to MQTT sources runs as written, against a real broker.

`mosquitto_pub` is a stand-in that publishes with paho.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.settings import Settings
from odfabric.wiring import engine_launcher
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.servers.mqtt import mqtt_broker

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/howto/read-a-sensor.md"
PAGE_S_MAX = 400

PUBLISH = """#!{python}
import argparse, paho.mqtt.publish
options = argparse.ArgumentParser()
for name in "qtm":
    options.add_argument("-" + name, required=True)
given = options.parse_args()
paho.mqtt.publish.single(given.t, given.m, qos=int(given.q), hostname="127.0.0.1", port={port})
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "odf").symlink_to(ROOT / "odf")
    yield tmp_path
    engine_launcher(Settings(workspace=tmp_path / "sensing")).stop()


@pytest.mark.spark
@pytest.mark.acceptance
@pytest.mark.timeout(PAGE_S_MAX + 60)
def test_the_guide_to_sensors_runs_as_written(checkout: Path, engine_cache: Path) -> None:
    (script,) = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with mqtt_broker() as broker:
        program = checkout / "bin" / "mosquitto_pub"
        program.parent.mkdir()
        program.write_text(PUBLISH.format(python=sys.executable, port=broker.port))
        program.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
        environment |= {"ODF_ENGINE_CACHE": str(engine_cache), "ODF_ENGINE_JVM_OPTIONS": QUICK_JVM}
        environment["PATH"] = f"{program.parent}:{environment['PATH']}"
        ran = subprocess.run(
            ["bash", "-euc", script.replace("1883", str(broker.port))],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PAGE_S_MAX,
        )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    assert ran.stdout.count("up to date") == 2
    assert "2 rows added" in ran.stdout
    assert "harbour" in ran.stdout

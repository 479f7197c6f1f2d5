"""Law L5: the same request gives the same logical hash, checkpoint, watermark.

Whatever cores, partitions, plans, locale, zone and memory the engine has, and on whatever day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.services.engine.laws.determinism_run import REQUESTS, Configuration
from tests.support.another_day import CAN_MOVE_CLOCKS, environment_on_another_day
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.turns import todays

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[4]


def of_a_host(language: str, country: str, zone: str) -> dict[str, str]:
    """The environment of a host elsewhere.

    `upper` in a JVM of Turkey gives other letters, so none of this may reach ours.
    """
    java = f"-Duser.language={language} -Duser.country={country} -Duser.timezone={zone}"
    locale = f"{language}_{country}.UTF-8"
    return {"TZ": zone, "LANG": locale, "LC_ALL": locale, "_JAVA_OPTIONS": java, "JDK_JAVA_OPTIONS": java}


ANOTHER_DAY = 400 if CAN_MOVE_CLOCKS else 0
"""Other machines run the same configurations today."""

CONFIGURATIONS = {
    "plain": Configuration(java=tuple(QUICK_JVM.split())),
    "everything else": Configuration(
        cores=4,
        shuffle_partitions=7,
        adaptive=True,
        compiled=False,
        batch_rows=37,
        in_memory_rows=100,
        planned_bytes=0,
        by_spark=True,
        days=ANOTHER_DAY,
        java=("-Duser.timezone=Asia/Kolkata",),
        environment=of_a_host("tr", "TR", "Asia/Kolkata"),
    ),
    "cores": Configuration(cores=4, shuffle_partitions=2),
    "partitions": Configuration(cores=2, shuffle_partitions=5),
    "adaptive": Configuration(cores=2, shuffle_partitions=5, adaptive=True),
    "interpreted": Configuration(cores=2, shuffle_partitions=3, compiled=False),
    "Germany": Configuration(
        java=("-Duser.timezone=Europe/Berlin",), environment=of_a_host("de", "DE", "Europe/Berlin")
    ),
    "in a year": Configuration(days=ANOTHER_DAY),
    "little memory": Configuration(cores=2, shuffle_partitions=3, batch_rows=10, in_memory_rows=60, planned_bytes=0),
}
"""The first is what the others are compared with; they run on the virtual machine that users get."""

DAY_S = 86_400

IN_CI = 2
ALL = "ODF_LAW_CASES" in os.environ
NAMES = [*REQUESTS] if ALL else [*todays([*REQUESTS], parts=4)]
"""Requests that run today."""

CHOSEN = list(CONFIGURATIONS) if ALL else list(CONFIGURATIONS)[:IN_CI]


def hashes(configuration: Configuration, folder: Path) -> dict[str, list[list[str]]]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "tests.services.engine.laws.determinism_run",
        str(folder),
        configuration.to_json(),
        json.dumps(NAMES),
    ]
    moved = environment_on_another_day(configuration.days) if configuration.days else {}
    environment = {**os.environ, **configuration.environment, **moved, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    ahead = [(clock - time.time()) / DAY_S for clock in told["clocks"]]
    assert ahead == pytest.approx([configuration.days] * 2, abs=0.5), "the clocks did not move as they should"
    found: dict[str, list[list[str]]] = told["hashes"]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    return hashes(CONFIGURATIONS[CHOSEN[0]], tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("name", CHOSEN[1:])
def test_the_same_request_gives_the_same_hash(tmp_path: Path, plain: dict[str, list[list[str]]], name: str) -> None:
    assert set(plain) == set(NAMES)
    assert hashes(CONFIGURATIONS[name], tmp_path) == plain

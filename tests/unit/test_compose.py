"""docker-compose.yml describes a node as this code knows it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from odfabric.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
OWN = {"prepare", "api", "worker", "engine"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(COMPOSE)
    return loaded


def test_it_is_a_compose_file() -> None:
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*command, str(COMPOSE)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_it_is_the_set_that_is_tested(document: dict[str, Any]) -> None:
    services = document["services"]
    assert set(services) == {*OWN, "postgres", "redis", "s3"}
    assert [services[name]["deploy"]["replicas"] for name in ("api", "worker")] == [2, 2]


def test_every_setting_is_one_that_we_have(document: dict[str, Any]) -> None:
    known = {f"ODF_{name.upper()}" for name in Settings.model_fields}
    for name in OWN - {"engine"}:
        given = set(document["services"][name]["environment"])
        assert given <= known, name
        assert {"ODF_DATABASE_URL", "ODF_OBJECTS_URL", "ODF_REDIS_URL", "ODF_ENGINE_ADDRESS"} <= given


def test_every_command_is_one_that_we_have(document: dict[str, Any]) -> None:
    for name in OWN:
        command = document["services"][name]["command"]
        assert command[:3] == ["python", "-P", "-m"]
        assert importlib.util.find_spec(command[3]) is not None
        options = [word.partition("=")[0] for word in command[4:] if word.startswith("--")]
        told = subprocess.run(
            [sys.executable, "-P", *command[2:4], "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert all(option in told for option in options), (name, options)


def test_everything_that_stays_says_whether_it_is_well(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        assert ("healthcheck" in service) == (name != "prepare"), name
        for needed, condition in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed == "prepare" else "service_healthy"
            assert condition == {"condition": expected}


def test_the_engine_reaches_nobody_and_nothing_of_the_node(document: dict[str, Any]) -> None:
    engine = document["services"]["engine"]
    assert engine["networks"] == ["inside"]
    assert document["networks"]["inside"] == {"internal": True}
    assert "ports" not in engine
    assert {volume.partition(":")[0] for volume in engine["volumes"]} == {"exchange", "engine-cache"}
    assert "environment" not in engine


def test_the_engine_has_no_rights_and_its_limits(document: dict[str, Any]) -> None:
    engine = document["services"]["engine"]
    assert engine["user"].partition(":")[0] not in ("", "0", "root")
    assert f"useradd --uid {engine['user'].partition(':')[0]} " in (ROOT / "Dockerfile").read_text()
    assert engine["read_only"] is True
    assert engine["cap_drop"] == ["ALL"]
    assert "cap_add" not in engine
    assert engine["security_opt"] == ["no-new-privileges:true"], "nothing that takes a wall of the container away"
    assert not {"privileged", "pid", "network_mode", "devices", "volumes_from"} & set(engine)
    assert engine["ipc"] == "private"
    assert [place.partition(":")[0] for place in engine["tmpfs"]] == ["/tmp"]
    assert all("size=" in place for place in engine["tmpfs"])
    assert {"mem_limit", "pids_limit", "ulimits"} <= set(engine)
    assert engine["ulimits"]["core"] == 0
    assert not any(word.startswith("--sandbox=unsealed") for word in engine["command"])


def test_no_secret_is_written_down_and_no_image_moves(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        for variable, value in service.get("environment", {}).items():
            if any(word in variable for word in ("TOKEN", "PASSWORD", "SECRET", "ACCESS_KEY")):
                assert str(value).startswith("${"), (name, variable)
        image = service.get("image")
        assert image is None or image.partition(":")[2] not in ("", "latest"), name
    for name in OWN:
        target = document["services"][name]["build"]["target"]
        assert f" AS {target}" in (ROOT / "Dockerfile").read_text()

"""docker-compose.yml describes a node as this code knows it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from odfabric import __version__
from odfabric.settings import Settings

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "docker-compose.yml"
CLUSTER = ROOT / "docker-compose.cluster.yml"
WORKERS = {"worker-heavy", "worker-light"}
NODE = {"prepare", "api", *WORKERS}
OWN = {*NODE, "engine"}
SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(COMPOSE)
    return loaded


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(CLUSTER)
    return loaded


@pytest.mark.parametrize("file", [COMPOSE, CLUSTER], ids=lambda file: file.name)
def test_it_is_a_compose_file(file: Path) -> None:
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*command, str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_it_is_the_set_that_is_tested(document: dict[str, Any]) -> None:
    services = document["services"]
    assert set(services) == {*OWN, "postgres", "redis", "s3"}
    assert {services[name]["deploy"]["replicas"] for name in ("api", *WORKERS)} == {2}


def test_each_lane_has_its_workers(document: dict[str, Any]) -> None:
    lanes = {name: document["services"][name]["environment"]["ODF_WORKER_LANE"] for name in WORKERS}
    assert lanes == {"worker-heavy": "heavy", "worker-light": "light"}
    for name in WORKERS:
        others = {key: value for key, value in document["services"][name]["environment"].items() if "LANE" not in key}
        assert others == document["services"]["api"]["environment"]


@pytest.mark.parametrize("name", sorted(NODE))
def test_the_node_writes_only_to_its_volumes_and_a_small_tmp(document: dict[str, Any], name: str) -> None:
    service = document["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "network_mode", "devices", "user"} & set(service)
    assert service["volumes"] == ["workspace:/workspace", "exchange:/workspace/exchange"]
    (tmp,) = service["tmpfs"]
    assert tmp.startswith("/tmp:size=")


def test_every_setting_is_one_that_we_have(document: dict[str, Any]) -> None:
    known = {f"ODF_{name.upper()}" for name in Settings.model_fields}
    for name in NODE:
        given = set(document["services"][name]["environment"])
        assert given <= known, name
        assert {"ODF_DATABASE_URL", "ODF_OBJECTS_URL", "ODF_REDIS_URL", "ODF_ENGINE_ADDRESS"} <= given


def test_every_command_is_one_that_we_have(document: dict[str, Any], cluster: dict[str, Any]) -> None:
    commands = {name: document["services"][name]["command"] for name in OWN}
    commands |= {f"{name} of the cluster": service["command"] for name, service in cluster["services"].items()}
    for name, command in commands.items():
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


def test_own_images_are_tagged_with_the_version_of_the_code(document: dict[str, Any], cluster: dict[str, Any]) -> None:
    services = {name: document["services"][name] for name in OWN} | {name: cluster["services"][name] for name in SPARK}
    for name, service in services.items():
        assert service["image"] == f"odfabric-{service['build']['target']}:{__version__}", name
        assert service["pull_policy"] == "build", "a registry may have an image of this name that is not ours"


def test_a_cluster_changes_nothing_of_the_engine_but_its_command_and_its_neighbours(
    document: dict[str, Any], cluster: dict[str, Any]
) -> None:
    assert set(cluster["services"]) == {"engine", *SPARK}
    engine = cluster["services"]["engine"]
    assert set(engine) == {"command", "networks", "secrets"}
    assert (
        engine["command"][: len(document["services"]["engine"]["command"])] == document["services"]["engine"]["command"]
    )
    assert set(engine["networks"]) == {"inside", "spark"}
    assert cluster["networks"] == {"spark": {"internal": True}}


def test_executors_are_shut_in_like_the_engine(document: dict[str, Any], cluster: dict[str, Any]) -> None:
    engine = document["services"]["engine"]
    for name in SPARK:
        service = cluster["services"][name]
        for key in ("user", "read_only", "cap_drop", "security_opt", "ulimits", "ipc"):
            assert service[key] == engine[key], (name, key)
        assert not {"privileged", "pid", "network_mode", "devices", "ports", "environment"} & set(service)
        assert service["networks"] == ["spark"], "they reach one another and the engine"
        assert all("size=" in place for place in service["tmpfs"])
        assert {"mem_limit", "pids_limit", "healthcheck"} <= set(service)
        assert service["hostname"] == name
        assert f"--host={name}" in service["command"]
        assert set(service.get("volumes", ())) <= {"exchange:/workspace/exchange"}


def test_engine_and_cluster_agree(cluster: dict[str, Any]) -> None:
    services = cluster["services"]
    options = {
        name: dict(word.split("=", 1) for word in service["command"] if "=" in word)
        for name, service in services.items()
    }
    engine, master = options["engine"], options["spark-master"]
    assert engine["--spark-master"] == f"spark://spark-master:{master['--port']}"
    assert engine["--spark-driver-host"] in services["engine"]["networks"]["spark"]["aliases"]
    for name in SPARK - {"spark-master"}:
        assert options[name]["--master"] == engine["--spark-master"]
        assert options[name]["--cores"] == engine["--executor-cores"]
        assert options[name]["--executors-memory-mib"] == engine["--executor-memory-mib"]

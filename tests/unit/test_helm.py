"""The chart describes a node as this code knows it, and shuts in who runs SQL of strangers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from odfabric.settings import Settings
from tests.support.helm_templates import rendered

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/odfabric"
COMPONENT = "app.kubernetes.io/component"
SHUT_IN = {"engine", "spark-master", "spark-worker"}
PEERS = {
    "engine": {("in", "api", 5544), ("in", "worker", 5544), ("in", "spark-master", 7078)}
    | {("in", "spark-worker", 7078), ("in", "spark-worker", 7079)}
    | {("out", "spark-master", 7077), ("out", "spark-worker", 7079)},
    "spark-master": {("in", "engine", 7077), ("in", "spark-worker", 7077)}
    | {("out", "engine", 7078), ("out", "spark-worker", 7080)},
    "spark-worker": {("in", "engine", 7079), ("in", "spark-worker", 7079), ("in", "spark-master", 7080)}
    | {("out", "spark-master", 7077), ("out", "engine", 7078), ("out", "engine", 7079), ("out", "spark-worker", 7079)},
}
"""Who speaks to whom on which port; names are looked up beside it."""

Object = dict[str, Any]


@pytest.fixture(params=[False, True], ids=["alone", "cluster"])
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return rendered(CHART, {"cluster.enabled": request.param})


@pytest.fixture
def with_cluster() -> list[Object]:
    return rendered(CHART, {"cluster.enabled": True})


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Component and pod of everything that runs."""
    for each in objects:
        if "template" in each.get("spec", {}):
            template = each["spec"]["template"]
            yield template["metadata"]["labels"][COMPONENT], template["spec"]


def command(pod: Object) -> list[str]:
    (container,) = pod["containers"]
    found: list[str] = container["command"]
    return found


def options(pod: Object) -> dict[str, str]:
    return dict(word[2:].split("=", 1) for word in command(pod) if word.startswith("--") and "=" in word)


def test_objects_have_names_of_their_own_and_labels_that_are_selected(objects: list[Object]) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)
    running = {component for component, _ in pods(objects)}
    assert {"api", "worker", "engine", "prepare"} <= running
    for each in objects:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "node"
        if each["kind"] == "Service":
            assert each["spec"]["selector"][COMPONENT] in running
        if each["kind"] in ("Deployment", "StatefulSet"):
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels


def test_a_cluster_runs_only_where_it_is_wanted() -> None:
    alone = rendered(CHART)
    assert {component for component, _ in pods(alone)} == {"api", "worker", "engine", "prepare"}
    engine = dict(pods(alone))["engine"]
    assert not any("spark" in word and word.startswith("--") for word in command(engine))
    (policy,) = [each for each in alone if each["kind"] == "NetworkPolicy"]
    assert policy["spec"]["egress"] == [], "nobody is reached by an engine alone"


def test_every_command_and_option_is_one_that_we_have(objects: list[Object]) -> None:
    for component, pod in pods(objects):
        words = command(pod)
        assert words[:3] == ["python", "-P", "-m"], component
        assert importlib.util.find_spec(words[3]) is not None
        told = help_of(words[3])
        for word in words[4:]:
            if word.startswith("--"):
                assert re.search(rf"{word.partition('=')[0]}\b", told), (component, word)


@cache
def help_of(module: str) -> str:
    return subprocess.run([sys.executable, "-P", "-m", module, "--help"], capture_output=True, text=True).stdout


def test_every_setting_is_one_that_we_have(objects: list[Object]) -> None:
    known = {f"ODF_{name.upper()}" for name in Settings.model_fields}
    given = {each["name"] for _, pod in pods(objects) for each in pod["containers"][0]["env"]}
    (settings,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert (given - {"POD_IP"}) | set(settings["data"]) <= known


def test_nothing_has_rights_and_everything_has_limits(objects: list[Object]) -> None:
    user = re.search(r"useradd --uid (\d+) ", (ROOT / "Dockerfile").read_text())
    assert user is not None
    for component, pod in pods(objects):
        assert pod["automountServiceAccountToken"] is False, "no key of the cluster's own api"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == int(user[1])
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, component
        assert {"cpu", "memory"} <= set(container["resources"]["limits"])
        for volume in pod["volumes"]:
            assert "hostPath" not in volume
            assert "emptyDir" not in volume or "sizeLimit" in volume["emptyDir"], component
        assert {each["name"] for each in pod["volumes"]} == {each["name"] for each in container["volumeMounts"]}


def test_the_key_file_stays_its_owners_alone(objects: list[Object]) -> None:
    """A volume that is mounted again would give the group a right to it, and the node refuses such a key file."""
    with_workspace = {
        component: pod["securityContext"]
        for component, pod in pods(objects)
        if any(volume["name"] == "workspace" for volume in pod.get("volumes", ()))
    }
    assert set(with_workspace) == {"api", "worker", "prepare"}
    assert {each["fsGroupChangePolicy"] for each in with_workspace.values()} == {"OnRootMismatch"}


def test_secrets_are_named_and_never_written(objects: list[Object]) -> None:
    assert not [each for each in objects if each["kind"] == "Secret"]
    for component, pod in pods(objects):
        for each in pod["containers"][0]["env"]:
            if any(word in each["name"] for word in ("TOKEN", "KEY", "URL", "SECRET")):
                assert set(each["valueFrom"]) == {"secretKeyRef"}, (component, each["name"])
    (settings,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert not any(word in name for name in settings["data"] for word in ("TOKEN", "KEY", "SECRET", "DATABASE"))


def test_who_runs_queries_knows_nothing_of_the_node(objects: list[Object]) -> None:
    for component, pod in pods(objects):
        if component in SHUT_IN:
            assert {each["name"] for each in pod["containers"][0]["env"]} <= {"POD_IP"}
            assert "workspace" not in {each["name"] for each in pod["volumes"]}
            assert "envFrom" not in pod["containers"][0]


def test_policies_let_through_what_they_need_and_nothing_else(with_cluster: list[Object]) -> None:
    policies = [each for each in with_cluster if each["kind"] == "NetworkPolicy"]
    for policy in policies:
        own = policy["spec"]["podSelector"]["matchLabels"][COMPONENT]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert (
            set(peers(policy["spec"]["ingress"], "in", "from")) | set(peers(policy["spec"]["egress"], "out", "to"))
            == (PEERS[own])
        ), own
    assert {each["spec"]["podSelector"]["matchLabels"][COMPONENT] for each in policies} == SHUT_IN
    for one, others in PEERS.items():
        for direction, other, port in others:
            back = ("in" if direction == "out" else "out", one, port)
            assert other not in SHUT_IN or back in PEERS[other], f"{one} and {other} do not agree on {port}"


def peers(rules: list[Object], direction: str, side: str) -> Iterator[tuple[str, str, int]]:
    for rule in rules:
        ports = [each["port"] for each in rule["ports"]]
        for peer in rule[side]:
            labels = peer["podSelector"]["matchLabels"]
            if ports == [53, 53] and side == "to":
                assert labels == {"k8s-app": "kube-dns"}
                continue
            for port in ports:
                yield direction, labels[COMPONENT], port


def test_engine_and_executors_agree(with_cluster: list[Object]) -> None:
    found = dict(pods(with_cluster))
    engine, master, worker = (options(found[name]) for name in ("engine", "spark-master", "spark-worker"))
    assert engine["spark-master"] == worker["master"] == f"spark://node-spark-master:{master['port']}"
    assert (engine["spark-driver-port"], engine["spark-block-port"], worker["port"]) == ("7078", "7079", "7080")
    assert engine["executor-cores"] == worker["cores"]
    assert engine["executor-memory-mib"] == worker["executors-memory-mib"]
    (workers,) = [
        each for each in with_cluster if each["metadata"]["name"] == "node-spark-worker" and "replicas" in each["spec"]
    ]
    assert engine["executors-max"] == str(workers["spec"]["replicas"])
    limit = found["spark-worker"]["containers"][0]["resources"]["limits"]["memory"]
    heap_mib = int(worker["executors-memory-mib"])
    assert int(limit.removesuffix("Gi")) * 1024 >= heap_mib * 1.25 + 512, "room beside the heap, and for the worker"
    for name in ("engine", "spark-worker", "api", "worker"):
        mounts = {each["name"]: each["mountPath"] for each in found[name]["containers"][0]["volumeMounts"]}
        assert mounts["exchange"] == "/workspace/exchange", "one path on all of them"

"""The chart matches this code's node and isolates the engine.

It shuts in what runs SQL of strangers.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from odfabric.settings import Settings
from tests.support.helm_chart import complaints, notes, refusal, rendered

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/odfabric"
COMPONENT = "app.kubernetes.io/component"
KUBERNETES = ["1.25", "1.37"]
"""The oldest release that the chart accepts, and a late one."""
SHUT_IN = {"engine", "spark-master", "spark-worker"}
PEERS = {
    "engine": {("in", "api", 5544), ("in", "worker", 5544), ("in", "worker-light", 5544), ("in", "spark-master", 7078)}
    | {("in", "spark-worker", 7078), ("in", "spark-worker", 7079)}
    | {("out", "spark-master", 7077), ("out", "spark-worker", 7079)},
    "spark-master": {("in", "engine", 7077), ("in", "spark-worker", 7077)}
    | {("out", "engine", 7078), ("out", "spark-worker", 7080)},
    "spark-worker": {("in", "engine", 7079), ("in", "spark-worker", 7079), ("in", "spark-master", 7080)}
    | {("out", "spark-master", 7077), ("out", "engine", 7078), ("out", "engine", 7079), ("out", "spark-worker", 7079)},
}
"""Who speaks to whom on which port; names are looked up beside it."""

Object = dict[str, Any]
OPTIONAL = {"global", "ephemeral-storage"}
"""Values that need not be in values.yaml."""


SCALING = {f"{each}.autoscaling.enabled": True for each in ("api", "worker", "lightWorker")}
EVERYTHING = {"cluster.enabled": True, "lightWorker.enabled": True, **SCALING}
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "cluster": {"cluster.enabled": True},
    "lanes": {"lightWorker.enabled": True},
    "autoscaling": SCALING,
    "everything": EVERYTHING,
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return rendered(CHART, request.param)


@pytest.fixture
def everything() -> list[Object]:
    return rendered(CHART, EVERYTHING)


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


def test_helm_has_no_complaint() -> None:
    assert complaints(CHART) == []
    chart = YAML(typ="safe", pure=True).load(CHART / "Chart.yaml")
    assert chart["kubeVersion"] == f">={KUBERNETES[0]}.0-0"


@pytest.mark.parametrize("release", KUBERNETES)
def test_kubernetes_knows_every_object_and_field(objects: list[Object], release: str) -> None:
    for each in objects:
        kubernetes_validate.validate(each, release, strict=True)


def test_a_cluster_runs_only_where_it_is_wanted() -> None:
    alone = rendered(CHART)
    assert {component for component, _ in pods(alone)} == {"api", "worker", "engine", "prepare"}
    engine = dict(pods(alone))["engine"]
    assert not any("spark" in word and word.startswith("--") for word in command(engine))
    policy = policies(alone)["engine"]
    assert policy["egress"] == [], "nobody is reached by an engine alone"


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
    """The key file stays its owner's alone.

    A volume that is mounted again would give the group a right to it, and the node refuses such a key file.
    """
    with_workspace = {
        component: pod["securityContext"]
        for component, pod in pods(objects)
        if any(volume["name"] == "workspace" for volume in pod.get("volumes", ()))
    }
    assert set(with_workspace) == {component for component, _ in pods(objects)} - SHUT_IN
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


def policies(objects: list[Object]) -> dict[str, Object]:
    """Component -> what its network policy says."""
    found = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    return {each["podSelector"]["matchLabels"][COMPONENT]: each for each in found}


def test_policies_let_through_what_they_need_and_nothing_else(everything: list[Object]) -> None:
    for own in SHUT_IN:
        policy = policies(everything)[own]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        let_through = {*peers(policy["ingress"], "in", "from"), *peers(policy["egress"], "out", "to")}
        assert let_through == PEERS[own], own
    for one, others in PEERS.items():
        for direction, other, port in others:
            back = ("in" if direction == "out" else "out", one, port)
            assert other not in SHUT_IN or back in PEERS[other], f"{one} and {other} do not agree on {port}"


def test_policies_of_the_node_let_in_callers_of_the_api_alone(objects: list[Object]) -> None:
    found = policies(objects)
    running = {component for component, _ in pods(objects)}
    assert set(found) == running - {"prepare"}
    api = dict(pods(objects))["api"]["containers"][0]
    (port,) = api["ports"]
    assert found["api"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": port["containerPort"]}]}]
    for component in running - SHUT_IN - {"prepare"}:
        assert found[component]["policyTypes"] == ["Ingress"], "webhooks and sources are anywhere"
        assert component == "api" or found[component]["ingress"] == []


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


def test_engine_and_executors_agree(everything: list[Object]) -> None:
    found = dict(pods(everything))
    engine, master, worker = (options(found[name]) for name in ("engine", "spark-master", "spark-worker"))
    assert engine["spark-master"] == worker["master"] == f"spark://node-spark-master:{master['port']}"
    assert (engine["spark-driver-port"], engine["spark-block-port"], worker["port"]) == ("7078", "7079", "7080")
    assert engine["executor-cores"] == worker["cores"]
    assert engine["executor-memory-mib"] == worker["executors-memory-mib"]
    (workers,) = [
        each for each in everything if each["metadata"]["name"] == "node-spark-worker" and "replicas" in each["spec"]
    ]
    assert engine["executors-max"] == str(workers["spec"]["replicas"])
    limit = found["spark-worker"]["containers"][0]["resources"]["limits"]["memory"]
    heap_mib = int(worker["executors-memory-mib"])
    assert int(limit.removesuffix("Gi")) * 1024 >= heap_mib * 1.25 + 512, "room beside the heap, and for the worker"
    for name in ("engine", "spark-worker", "api", "worker"):
        mounts = {each["name"]: each["mountPath"] for each in found[name]["containers"][0]["volumeMounts"]}
        assert mounts["exchange"] == "/workspace/exchange", "one path on all of them"


def test_everything_that_stays_has_probes(objects: list[Object]) -> None:
    for component, pod in pods(objects):
        (container,) = pod["containers"]
        probes = {name for name in container if name.endswith("Probe")}
        assert probes == (set() if component == "prepare" else {"startupProbe", "readinessProbe", "livenessProbe"})
        ports = {each["name"] for each in container.get("ports", ())}
        for probe in (container[name] for name in probes):
            (action,) = {"tcpSocket", "httpGet", "exec"} & set(probe)
            assert action == "exec" or probe[action]["port"] in ports, component


def test_a_worker_is_asked_at_the_port_of_its_metrics(objects: list[Object]) -> None:
    (container,) = dict(pods(objects))["worker"]["containers"]
    (port,) = [each["value"] for each in container["env"] if each["name"] == "ODF_WORKER_METRICS_PORT"]
    asked = container["livenessProbe"]["exec"]["command"]
    assert f"http://127.0.0.1:{port}/metrics" in asked[-1]
    compile(asked[-1], "livenessProbe", "exec")
    assert container["readinessProbe"]["exec"]["command"][-1] == command({"containers": [container]})[-1]


def test_metrics_of_workers_are_reached_by_those_who_are_named_alone() -> None:
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

    def seen(changes: dict[str, Any]) -> tuple[list[str], list[Any]]:
        found = rendered(CHART, changes)
        (container,) = dict(pods(found))["worker"]["containers"]
        (policy,) = [
            each
            for each in found
            if each["kind"] == "NetworkPolicy" and each["spec"]["podSelector"]["matchLabels"][COMPONENT] == "worker"
        ]
        hosts = [each["value"] for each in container["env"] if each["name"] == "ODF_WORKER_METRICS_HOST"]
        return hosts, policy["spec"]["ingress"]

    assert seen({}) == ([], [])
    hosts, (rule,) = seen({"metrics.from": [monitoring]})
    assert (hosts, rule["from"]) == (["0.0.0.0"], [monitoring])
    assert rule["ports"] == [{"protocol": "TCP", "port": 9464}]


def test_lanes_have_workers_of_their_own_where_that_is_wanted() -> None:
    def lanes(changes: dict[str, Any]) -> dict[str, str]:
        return {
            component: each["value"]
            for component, pod in pods(rendered(CHART, changes))
            for each in pod["containers"][0]["env"]
            if each["name"] == "ODF_WORKER_LANE"
        }

    assert lanes({}) == {"worker": "all"}
    assert lanes({"lightWorker.enabled": True}) == {"worker": "heavy", "worker-light": "light"}


def test_pods_are_counted_by_the_chart_or_by_an_autoscaler(objects: list[Object]) -> None:
    """Both at once would undo each other with every upgrade."""
    scaled = {
        each["spec"]["scaleTargetRef"]["name"]: each["spec"]
        for each in objects
        if each["kind"] == "HorizontalPodAutoscaler"
    }
    deployments = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Deployment"}
    assert set(scaled) <= set(deployments) - {"node-engine"}
    for name, deployment in deployments.items():
        assert ("replicas" in deployment["spec"]) != (name in scaled), name
        if name in scaled:
            assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]


def test_autoscalers_have_the_bounds_of_the_values() -> None:
    changes = {"api.autoscaling": {"enabled": True, "replicasMin": 3, "replicasMax": 9, "cpuPercent": 60}}
    (found,) = [each["spec"] for each in rendered(CHART, changes) if each["kind"] == "HorizontalPodAutoscaler"]
    assert (found["minReplicas"], found["maxReplicas"]) == (3, 9)
    assert found["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 60}
    told = refusal(CHART, {"worker.autoscaling": {"enabled": True, "replicasMin": 7, "replicasMax": 6}})
    assert "worker: autoscaling.replicasMin (7) is above autoscaling.replicasMax (6)" in told


def test_drains_leave_one_of_each(objects: list[Object]) -> None:
    budgets = {
        each["spec"]["selector"]["matchLabels"][COMPONENT]: each["spec"]["maxUnavailable"]
        for each in objects
        if each["kind"] == "PodDisruptionBudget"
    }
    several = {component for component, _ in pods(objects)} - {"prepare", "engine", "spark-master"}
    assert budgets == dict.fromkeys(several, 1), "a budget of a single pod would stop every drain"
    assert not [
        each for each in rendered(CHART, {"disruptionBudgets.enabled": False}) if each["kind"] == "PodDisruptionBudget"
    ]


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"api.replica": 3}, "/api", "additional properties 'replica' not allowed"),
        ({"apis.replicas": 3}, "''", "additional properties 'apis' not allowed"),
        ({"worker.replicas": "3"}, "/worker/replicas", "got string, want integer"),
        ({"cluster.enabled": "yes"}, "/cluster/enabled", "got string, want boolean"),
        ({"images.node": "odfabric-node"}, "/images/node", "does not match pattern"),
        ({"engine.resources.limits.memory": "8 GB"}, "/engine/resources/limits/memory", "does not match pattern"),
        ({"settings.ODF_JOB_THREADS": 4}, "/settings/ODF_JOB_THREADS", "got number, want string"),
        ({"settings.ODF_TOKEN": "secret"}, "''", "invalid propertyName 'ODF_TOKEN'"),
        ({"api.autoscaling.cpuPercent": 0}, "/api/autoscaling/cpuPercent", "minimum"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_a_mistyped_value_is_refused_with_its_place(changes: dict[str, Any], place: str, reason: str) -> None:
    told = refusal(CHART, changes)
    assert place in told
    assert reason in told


def test_the_schema_describes_every_value_and_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = YAML(typ="safe", pure=True).load(CHART / "values.yaml")

    def compare(part: Object, value: Any, place: str) -> None:
        meant = {**schema["$defs"][part["$ref"].rpartition("/")[2]], **part} if "$ref" in part else part
        assert meant["description"], place
        if "properties" in meant:
            assert meant["additionalProperties"] is False, place
            assert set(value) | OPTIONAL >= set(meant["properties"]), place
            for name, each in value.items():
                compare(meant["properties"][name], each, f"{place}.{name}")

    compare(schema, values, "")


def test_settings_that_the_chart_gives_cannot_be_given_twice(objects: list[Object]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    refused = set(schema["properties"]["settings"]["propertyNames"]["not"]["enum"])
    given = {each["name"] for _, pod in pods(objects) for each in pod["containers"][0]["env"]}
    assert given - {"POD_IP"} <= refused


def test_notes_name_what_there_is() -> None:
    told = notes(CHART, EVERYTHING)
    names = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in rendered(CHART, EVERYTHING)}
    named = set(re.findall(r"\b(?:job|deployment|service)/[a-z0-9-]+", told))
    assert named
    assert named <= names
    assert "odf-cluster" in told
    assert "odf-cluster" not in notes(CHART)

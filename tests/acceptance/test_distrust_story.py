"""Two nodes, a bucket and a stranger who do not trust each other.

`ann` publishes; `bob` mirrors, and gives back what ann lost; the keeper of the bucket tampers; the stranger has its URL and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.mirror_node import mirror_node
from tests.support.node_process import NodeProcess, Odf, ndjson, node_process
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.stories import hourly, reading, root

NAME, DERIVED = "harbour", "hourly"
PASSPHRASE = "correct horse battery staple"
YAML = {"content-type": "application/yaml"}
REFS = ("refs/head", "refs/head.log", "refs/head.sig")

Files = Mapping[str, bytes]

FOUND_BY_VERIFY = {
    "refs/head changed": "corrupted-source",
    "refs/head removed": "head-missing",
    "refs/head.log changed": "head-log-tampered",
    "refs/head.log removed": "head-log-missing",
    "refs/head.sig changed": "head-log-tampered",
    "refs/head.sig removed": "head-log-missing",
    "blocks changed": "corrupted-source",
    "blocks removed": "corrupted-source",
    "data changed": "corrupted-source",
    "data removed": "corrupted-source",
    "checkpoint changed": "corrupted-source",
    "checkpoint removed": "corrupted-source",
    "rolled back": "head-log-rollback",
    "frozen": "head-log-freeze",
    "forked": "head-log-fork",
}
FOUND_BY_PULL = {
    **FOUND_BY_VERIFY,
    "refs/head removed": "not-found",
    # Bob has not seen the newest entry yet: he takes the newest head that is signed, whatever refs/head says.
    "rolled back": None,
}


@dataclass(frozen=True)
class Bucket:
    """The bucket: ann writes with keys, everybody reads."""

    server: S3Server
    name: str

    def url(self, place: str) -> str:
        return f"s3+{self.server.endpoint}/{self.name}/{place}/"

    def files(self, place: str) -> dict[str, bytes]:
        client = self.server.client()
        listed = client.list_objects_v2(Bucket=self.name, Prefix=f"{place}/")["Contents"]
        keys = [str(each["Key"]) for each in listed]
        return {
            key.removeprefix(f"{place}/"): client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys
        }

    def lay(self, place: str, files: Files) -> str:
        """Lay files in a place of their own; its URL."""
        for path, data in files.items():
            self.server.client().put_object(Bucket=self.name, Key=f"{place}/{path}", Body=data)
        return self.url(place)


@dataclass(frozen=True)
class People:
    """The two nodes, the bucket, and tokens of ann's node."""

    ann: NodeProcess
    bob: NodeProcess
    bucket: Bucket
    folder: Path
    engine_cache: Path
    keys: Mapping[str, str]
    """Setting of the keys to the bucket."""

    def file(self, name: str) -> Path:
        return self.folder / name

    def workspace(self, name: str, **environment: str) -> Odf:
        """A workspace without keys to the bucket, which may reach what the test has."""
        found = Odf(
            options=("--workspace", str(self.folder / name)),
            environment={
                "ODF_ENGINE_CACHE": str(self.engine_cache),
                "ODF_ENGINE_OWNER_PID": str(os.getpid()),
                **reaching(self.bucket.server, self.ann.url),
                **environment,
            },
        )
        assert found.json("init")["created"]
        return found

    def ingest(self, *minutes: int) -> None:
        self.ann.push(NAME, [reading(minute) for minute in minutes])

    def publish(self, name: str) -> dict[str, Any]:
        """Ann pushes to the bucket."""
        return self.ann.finished(self.ann.http.post(f"/local/{name}/push", json={"to": self.bucket.url(name)}))

    def pull(self, name: str, url: str) -> dict[str, Any]:
        """Bob pulls from somewhere; the job."""
        answer = self.bob.http.post(f"/local/{name}/pull", json={"url": url})
        assert answer.status_code == 202, answer.text
        return self.bob.ended(answer.json()["job"]["id"])


def reaching(server: S3Server, *urls: str) -> dict[str, str]:
    """Settings by which a node of the test reaches the loopback address."""
    ports = [urlsplit(each).port for each in (server.endpoint, *urls)]
    return {"ODF_EGRESS_ALLOW": json.dumps(["127.0.0.0/8"]), "ODF_EGRESS_PORTS": json.dumps(ports)}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Iterator[People]:
    folder = tmp_path_factory.mktemp("distrust")
    with ExitStack() as ending:
        server = ending.enter_context(s3_server())
        bucket = Bucket(server, server.create_public_bucket())
        known = {
            f"s3+{server.endpoint}/{bucket.name}": {"access_key": server.access_key, "secret_key": server.secret_key}
        }
        keys = {"ODF_REMOTE_S3_KEYS": json.dumps(known)}
        common = {"ODF_ENGINE_CACHE": str(engine_cache)}
        ann = ending.enter_context(node_process(folder / "ann", **common, **keys, **reaching(server)))
        token = ann.http.post("/tokens", json={"name": "bob", "scopes": ["manage"]}).json()["token"]
        bob = ending.enter_context(
            mirror_node(folder / "bob", **reaching(server, ann.url), ODF_REMOTE_TOKENS=json.dumps({ann.url: token}))
        )
        yield People(ann, bob, bucket, folder, engine_cache, keys)


def signed_by(node: NodeProcess) -> tuple[str, int]:
    """Who signs the dataset on a node, and how long its log is."""
    found = node.http.get(f"/local/{NAME}/heads").json()
    return found["signer"], found["entries"]


def without(files: Files, path: str) -> Files:
    return {name: data for name, data in files.items() if name != path}


def changed(files: Files, path: str) -> Files:
    """One byte of a file is another one; `refs/head` still is a hash."""
    data = bytearray(files[path])
    if path == "refs/head":
        data[64:65] = b"1" if data[64:65] == b"0" else b"0"
    else:
        data[len(data) // 2] ^= 1
    return {**files, path: bytes(data)}


def test_people_who_do_not_trust_each_other(people: People) -> None:
    publish_and_mirror(people)
    stranger = people.workspace("stranger")
    seen = stranger.json("verify", people.bucket.url(NAME))["elsewhere"][0]
    assert (seen["head"], seen["signed"]["signer"]) == (people.ann.head(NAME), signed_by(people.ann)[0])
    fork = two_histories_of_one_key(people)
    tamper(people, stranger, fork)
    give_back(people, stranger)


def publish_and_mirror(people: People) -> None:
    """Ann publishes; bob mirrors from the bucket, then from her node."""
    ann, bob = people.ann, people.bob
    for manifest in (root(NAME), hourly(DERIVED, of=NAME)):
        made = ann.http.post("/datasets?visibility=public", content=manifest, headers=YAML)
        assert made.status_code == 201, made.text
    people.ingest(0)
    ann.pull(DERIVED)
    for name in (NAME, DERIVED):
        assert people.publish(name)["upToDate"] is False
    sources = (people.bucket.url(NAME), f"{ann.url}/local/{NAME}", f"odf+{ann.url}/local/{NAME}")
    for minute, source in enumerate(sources, start=1):
        people.ingest(minute)
        people.publish(NAME)
        assert people.pull(NAME, source)["status"] == "succeeded", source
        assert bob.head(NAME) == ann.head(NAME)
        assert signed_by(bob) == signed_by(ann)
    checked = bob.http.post(f"/local/{NAME}/verify", json={"replay": False})
    assert bob.finished(checked)["ok"] is True


def two_histories_of_one_key(people: People) -> str:
    """Ann's key is on two machines, and both write: where the other one publishes."""
    other = people.workspace("other", **people.keys)
    other.json("pull", people.bucket.url(NAME), "--as", NAME)
    refused = other.refused("ingest", NAME, "-", stdin=ndjson([reading(50)]))
    assert "odf key import" in str(refused["hint"])
    exported = people.ann.http.post(f"/local/{NAME}/key/export", json={"passphrase": PASSPHRASE})
    assert exported.status_code == 200, exported.text
    people.file("ann.key").write_bytes(exported.content)
    people.file("passphrase").write_text(PASSPHRASE)
    sealed = (str(people.file("ann.key")), "--passphrase-file", str(people.file("passphrase")))
    other.json("key", "import", NAME, *sealed)
    other.json("ingest", NAME, "-", stdin=ndjson([reading(50)]))
    other.json("push", NAME, "--to", people.bucket.url("fork"))
    return people.bucket.url("fork")


def tamper(people: People, stranger: Odf, fork: str) -> None:
    """Change or remove each file of the bucket in turn; give old answers again.

    The stranger's verification and bob's pull refuse each by its name.
    """
    before = people.bucket.files(NAME)
    people.ingest(10)
    people.publish(NAME)
    whole, derived = people.bucket.files(NAME), people.bucket.files(DERIVED)
    newest = {path.partition("/")[0]: path for path in whole if path not in before}
    checkpoint = next(path for path in derived if path.startswith("checkpoints/"))
    places: dict[str, str] = {}

    def lay(case: str, files: Files) -> None:
        places[case] = people.bucket.lay(f"evil-{len(places)}", files)

    for path in (*REFS, newest["blocks"], newest["data"]):
        kind = path if path.startswith("refs/") else path.partition("/")[0]
        lay(f"{kind} changed", changed(whole, path))
        lay(f"{kind} removed", without(whole, path))
    lay("checkpoint changed", changed(derived, checkpoint))
    lay("checkpoint removed", without(derived, checkpoint))
    lay("rolled back", {**whole, "refs/head": before["refs/head"]})
    lay("frozen", before)
    places["forked"] = fork
    ran = stranger.run("-o", "json", "verify", people.bucket.url(NAME), *places.values())
    assert ran.code == 1
    honest, *reports = ran.json["elsewhere"]
    assert honest["ok"] is True
    assert {case: report["errors"][0]["kind"] for case, report in zip(places, reports, strict=True)} == FOUND_BY_VERIFY
    found = {}
    for case, place in places.items():
        error = people.pull(DERIVED if case.startswith("checkpoint") else NAME, place)["error"]
        found[case] = None if error is None else error.get("rule", error["code"])
    assert found == FOUND_BY_PULL
    for name in (NAME, DERIVED):
        assert people.pull(name, people.bucket.url(name))["status"] == "succeeded"
        assert people.bob.head(name) == people.bucket.files(name)["refs/head"].decode()


def give_back(people: People, stranger: Odf) -> None:
    """Ann loses the dataset; who has the right gives it back, and nobody else."""
    ann, bob = people.ann, people.bob
    head, (signer, entries) = ann.head(NAME), signed_by(ann)
    target = f"odf+{ann.url}/local/{NAME}"
    stranger.json("pull", people.bucket.url(NAME), "--as", NAME)
    datasets = ann.http.get("/datasets").json()["datasets"]
    lost = next(each["id"] for each in datasets if each["alias"] == f"local/{NAME}")
    assert ann.http.delete(f"/datasets/{lost}").status_code == 409, "others are derived from it"
    derived = next(each["id"] for each in datasets if each["alias"] == f"local/{DERIVED}")
    for dataset in (derived, lost):
        assert ann.http.delete(f"/datasets/{dataset}").status_code == 204
    assert stranger.refused("push", NAME, "--to", target)["code"] == "unauthenticated"
    reader = ann.http.post("/tokens", json={"name": "reader", "scopes": ["read"]}).json()["token"]
    limited = Odf(stranger.options, {**stranger.environment, "ODF_REMOTE_TOKENS": json.dumps({ann.url: reader})})
    assert limited.refused("push", NAME, "--to", target)["code"] == "access-denied"
    sent = bob.finished(bob.http.post(f"/local/{NAME}/push", json={"to": target, "visibility": "public"}))
    assert sent["head"] == head == ann.head(NAME)
    assert signed_by(ann) == (signer, entries)
    body = {"document": people.file("ann.key").read_text(), "passphrase": PASSPHRASE}
    assert ann.http.post(f"/local/{NAME}/key/import", json=body).json()["signer"] == signer
    people.ingest(20)
    people.publish(NAME)
    assert stranger.json("verify", people.bucket.url(NAME))["elsewhere"][0]["signed"]["entries"] == entries + 1

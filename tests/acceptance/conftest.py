"""Fixtures of stories: a node of real processes, a workspace, a web server.

The workspace has its own engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.engines.class_archive import class_archive
from tests.support.loopback_http import LoopbackServer, Seen, reply
from tests.support.node_process import NodeProcess, Odf, node_process
from tests.support.process_tree import alive, marked, seen_now
from tests.support.waiting import wait_until

Handler = Callable[[Seen], bytes]


@dataclass
class Web:
    """Pages and webhook receivers on a loopback address that the node may reach."""

    server: LoopbackServer
    handlers: dict[str, Handler] = field(default_factory=dict)

    def respond(self, seen: Seen) -> bytes:
        """By path; an unknown one is not found."""
        handler = self.handlers.get(seen.target.partition("?")[0])
        return handler(seen) if handler else reply(404)


@dataclass(frozen=True)
class LocalWorkspace:
    """A workspace that the command line works on by itself."""

    folder: Path
    odf: Odf


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of Spark's classes: shared by all tests, or made by the session."""
    return class_archive() or tmp_path_factory.mktemp("engine-cache")


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    server = LoopbackServer(respond=lambda seen: found.respond(seen))
    found = Web(server)
    with server.serving():
        yield found


@pytest.fixture(scope="session")
def poll_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("polled")


@pytest.fixture(scope="session")
def node(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path, poll_folder: Path, web: Web
) -> Iterator[NodeProcess]:
    """`odf up`, used by all stories that do not kill it.

    At the end nothing of it may be left.
    """
    workspace = tmp_path_factory.mktemp("node") / "workspace"
    options = ("--poll-folder", str(poll_folder), "--egress-allow", web.server.place)
    environment = {
        "ODF_EGRESS_PORTS": json.dumps([web.server.port]),
        "ODF_ENGINE_CACHE": str(engine_cache),
    }
    with node_process(workspace, *options, **environment) as running:
        yield running
        left = running.processes()
    wait_until(lambda: not alive(left), what="the end of everything that `odf up` started")


@pytest.fixture(scope="session")
def remote_odf(node: NodeProcess) -> Odf:
    """The command line on the node."""
    return Odf(options=("--node", node.url, "--token", node.token))


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path, node: NodeProcess) -> Iterator[LocalWorkspace]:
    """A workspace of its own, which may pull from the node; its engine ends with it."""
    folder = tmp_path_factory.mktemp("local") / "workspace"
    place = node.url.removeprefix("http://")
    environment = {
        "ODF_ENGINE_CACHE": str(engine_cache),
        "ODF_ENGINE_OWNER_PID": str(os.getpid()),
        "ODF_EGRESS_ALLOW": json.dumps([place]),
        "ODF_EGRESS_PORTS": json.dumps([int(place.rpartition(":")[2])]),
        "ODF_REMOTE_TOKENS": json.dumps({node.url: node.token}),
    }
    odf = Odf(options=("--workspace", str(folder)), environment=environment)
    assert odf.json("init") == {"workspace": str(folder), "created": True}
    yield LocalWorkspace(folder, odf)
    record = folder / "engine.json"
    if record.exists():
        engine = seen_now(json.loads(record.read_text())["pid"])
        assert engine is not None, "the engine of the workspace died"
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine.pid, signal.SIGTERM)
        wait_until(lambda: not alive({engine}), what="the end of the workspace's engine")
    assert not marked(str(folder))

"""A node that only keeps copies: an api and a worker, and no engine.

It starts in a fraction of the time of `odf up`, which warms a session of Spark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.support.node_process import END_S_MAX, PUSH_S_MAX, START_S_MAX, NodeProcess, Odf, clean_environment
from tests.support.waiting import wait_until


@contextmanager
def mirror_node(workspace: Path, **environment: str) -> Iterator[NodeProcess]:
    """The node, ready; it is ended with the context."""
    token = os.urandom(20).hex()
    settings = {"ODF_WORKSPACE": str(workspace), "ODF_TOKEN": token, **environment}
    Odf(environment=settings).json("init")
    owner = ["--owner-pid", str(os.getpid())]
    log = workspace.with_name(f"{workspace.name}.log")
    with ExitStack() as ending:
        api = ending.enter_context(_part(workspace, settings, log, "odfabric_api", "--port", "0", *owner))
        ending.enter_context(_part(workspace, settings, log, "odfabric_worker", *owner))
        url = json.loads((workspace / "odfabric_api.ready").read_text())["url"]
        headers = {"authorization": f"Bearer {token}"}
        http = httpx.Client(base_url=url, headers=headers, timeout=PUSH_S_MAX + 20, trust_env=False)
        yield NodeProcess(api, workspace, url, token, "", ending.enter_context(http), log, "")


@contextmanager
def _part(
    workspace: Path, environment: dict[str, str], log: Path, module: str, *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    ready = workspace / f"{module}.ready"
    command = [sys.executable, "-P", "-m", module, *options, "--ready-file", str(ready)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=clean_environment(**environment)
        )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, deadline_s=START_S_MAX, what=module)
        assert process.poll() is None, log.read_text()[-3000:]
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""The node on servers, each of them killed under work.

Two apis, two workers, one engine, PostgreSQL, Valkey, S3.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.node_process import ODF, clean_environment
from tests.support.process_tree import alive, marked
from tests.support.served_node import APIS, ENGINE, WORKERS, ServedNode, served_node
from tests.support.waiting import wait_until

DEMO_S_MAX = 900.0
"""Some minutes on two idle cores; the rest is for a machine that does other things too."""
BUSY_S_MAX = 120.0
RUNNING = "SELECT worker FROM jobs WHERE status = 'running'"

pytestmark = pytest.mark.timeout(DEMO_S_MAX + 60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Iterator[ServedNode]:
    with served_node(tmp_path_factory.mktemp("served"), engine_cache=engine_cache) as node:
        yield node
    left = marked(str(node.workspace))
    assert not alive(left), left


class Story:
    """The demo on the node, with something done while each of its steps works."""

    def __init__(self, node: ServedNode) -> None:
        self.node = node
        self.said: list[str] = []
        self.killed: list[str] = []

    def tell(self, acts: dict[int, Callable[[], None]]) -> int:
        """Run the demo; `acts` happen once the step of that number is under way.

        Its exit code.
        """
        options = ["--node", self.node.url, "--token", self.node.token, "demo", "--polled", str(self.node.polled)]
        environment = clean_environment(ODF_EGRESS_ALLOW='["127.0.0.0/8"]')
        with subprocess.Popen(
            [str(ODF), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as demo:
            assert demo.stdout is not None
            ending = threading.Timer(DEMO_S_MAX, demo.kill)
            ending.start()
            for line in demo.stdout:
                self.said.append(line.rstrip())
                number = line.partition(".")[0].strip()
                if number.isdecimal() and (act := acts.get(int(number) + 1)) is not None:
                    act()
            ending.cancel()
            return demo.wait()

    def kill(self, name: str) -> None:
        """While a job is being done, and start it again."""
        self.busy()
        self.node.kill(name)
        self.killed.append(name)
        self.node.restart(name)

    def kill_the_busy_worker(self) -> None:
        """The one that does a job."""
        self.kill(self.busy())

    def kill_the_other_worker(self) -> None:
        """The one that has not been killed yet."""
        self.kill(next(name for name in WORKERS if name not in self.killed))

    def busy(self) -> str:
        """Name of a worker that does a job, once there is one."""
        pids = {str(self.node.processes[name].pid): name for name in WORKERS}

        def look() -> str:
            with psycopg.connect(self.node.environment["ODF_DATABASE_URL"]) as connection:
                found = connection.execute(RUNNING).fetchone()
            return pids.get(found[0].split("/")[1], "") if found else ""

        return wait_until(look, deadline_s=BUSY_S_MAX, what="a job under way")


def test_the_demo_runs_while_each_process_is_killed_and_redis_is_lost(served: ServedNode) -> None:
    story = Story(served)
    code = story.tell(
        {
            4: lambda: story.kill(APIS[0]),
            5: lambda: story.kill(ENGINE),
            6: story.kill_the_busy_worker,
            7: lambda: story.kill("redis"),
            8: lambda: story.kill("postgres"),
            9: lambda: story.kill("s3"),
            10: story.kill_the_other_worker,
            12: lambda: story.kill(APIS[1]),
        }
    )
    assert code == 0, "\n".join([*story.said, served.logs()])
    assert sorted(story.killed) == sorted([*APIS, *WORKERS, ENGINE, "redis", "postgres", "s3"])
    said = "\n".join(story.said)
    assert "18 commits, as many events, every signature good, no gap" in said
    assert "objects byte for byte the same" in said

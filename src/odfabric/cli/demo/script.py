"""The steps of the demo, in order, each timed.

Owns the story; everything it does goes through the same command line backends, REST interface and processes that users have. Any
surprise ends it with exit code 1 and the reason.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from odfabric.cli.backends.backend import PushFile, VerifyWish
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.cli.demo.extent import Extent
from odfabric.cli.demo.flight_files import (
    LATE_ARRIVAL,
    LATE_CARRIER,
    data_folder,
    prepare_arrivals,
    write_second_planes,
)
from odfabric.cli.demo.receiver import Receiver
from odfabric.cli.output import Output
from odfabric.cli.program import program
from odfabric.cli.supervise import RunningNode, Supervisor
from odfabric.errors import Corrupt
from odfabric.settings import Settings
from odfabric.wiring import Node, open_node

DELIVERIES_S_MAX = 60.0
FOLLOW_S_MAX = 300.0
LOOK_EVERY_S = 0.1
FOLLOWING = ("flights.hourly", "flights.daily")
"""Derivative datasets, in the order in which they follow."""
SHARED = "flights.hourly"
SAMPLE_ROWS = 4
FOLDERS = ("blocks", "data", "checkpoints")
PLANES = "  planes, History: open the newest block to see what it corrects and retracts.\n"
EMBEDDED: Mapping[str, None] = {"database_url": None, "objects_url": None, "redis_url": None}
"""The second node never shares the stores that the environment names for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoNode:
    """A running node: its address, token, and the folder from which it may poll."""

    url: str
    token: str
    polled: Path


def run_demo(
    output: Output,
    extent: Extent,
    *,
    keep: Path | None,
    node: DemoNode | None = None,
    console: Callable[[Node, str], str | None] | None = None,
) -> int:
    """Run it, on a node of its own if none is given; the exit code.

    Workspaces are removed at the end unless `keep` names a folder for them. With `console`, which makes the link that opens the console of
    the node at this address, the node serves on until somebody interrupts it.
    """
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return _Demo(extent, keep, output, node, console).run()
    with tempfile.TemporaryDirectory(prefix="odfabric-demo-") as folder:
        return _Demo(extent, Path(folder), output, node, None).run()


class _Demo:
    """One run: where it lies, what it counted, how long steps took."""

    def __init__(
        self,
        extent: Extent,
        folder: Path,
        output: Output,
        given: DemoNode | None,
        console: Callable[[Node, str], str | None] | None,
    ) -> None:
        self._extent = extent
        self._folder = folder
        self._console = console
        self._output = output
        self._given = given
        self._polled = given.polled if given else folder / "polled"
        self._steps: list[dict[str, object]] = []
        self._commits: dict[str, int] = dict.fromkeys(extent.datasets, 0)
        self._runs_seen: set[str] = set()
        self._rows: dict[str, int] = dict.fromkeys(extent.datasets, 0)
        self._receiver = Receiver()

    def run(self) -> int:
        """All steps."""
        started = time.monotonic()
        with ExitStack() as ending:
            ending.enter_context(self._receiver.listening())
            node = ending.enter_context(self._given_node() if self._given else self._node("first", warm=True))
            client = self._client(node)
            arrivals = self._prepare(client, node)
            if self._extent.is_whole:
                self._first_data(client)
            self._arrivals(client, arrivals)
            self._check_events()
            self._verify_all(client)
            if self._extent.is_whole:
                self._share(node, client, ending)
            self._summary(client, time.monotonic() - started)
            if self._console is not None and self._given is None:
                self._look_around(node, self._console)
        self._say(f"Done in {time.monotonic() - started:.0f} s; nothing is left running.")
        return 0

    def _prepare(self, client: NodeBackend, node: RunningNode) -> dict[str, int]:
        count = {5: "five", 3: "three"}[len(self._extent.datasets)]
        with self._step(f"create {count} datasets from manifests, subscribe a webhook to each") as note:
            for name, text in self._extent.datasets.items():
                path = self._folder / f"{name}.yaml"
                path.write_text(text)
                client.add(str(path))
                secret = self._subscribe(node, name)
                self._receiver.expect(name, secret)
            roots = ", ".join(name for name in self._extent.datasets if name not in FOLLOWING)
            note(f"{roots} (root); flights.hourly and flights.daily (derived)")
        with self._step("cut flights into arrivals") as note:
            arrivals = prepare_arrivals(self._folder / "waiting", self._extent)
            note(", ".join(f"{name} {rows:,}" for name, rows in arrivals.items()))
        return arrivals

    def _first_data(self, client: NodeBackend) -> None:
        with self._step("push weather (Ledger)") as note:
            note(f"{self._push(client, 'weather', data_folder() / 'weather.csv'):,} rows")
        with self._step("push planes twice (Snapshot): corrections and retractions") as note:
            first = self._push(client, "planes", data_folder() / "planes.csv")
            later = self._folder / "planes-later.csv"
            retired, refitted = write_second_planes(later)
            changes = self._push(client, "planes", later)
            note(f"{first:,} planes, then {changes} changes: {retired} retired, {refitted} refitted (-C and +C each)")

    def _arrivals(self, client: NodeBackend, arrivals: Mapping[str, int]) -> None:
        polled = self._polled / "arrivals"
        for name in (*self._extent.arrivals, LATE_ARRIVAL):
            late = f", a month of {LATE_CARRIER}, late" if name == LATE_ARRIVAL else ""
            with self._step(f"{name} arrives{late}: poll; hourly and daily follow by themselves") as note:
                # The node's folder may be on another disk, and it must see the file whole or not at all.
                pending = shutil.move(self._folder / "waiting" / name, polled / f".{name}")
                Path(pending).rename(polled / name)
                new = [self._pull(client, "flights"), *(self._followed(client, one) for one in FOLLOWING)]
                if new[0] != arrivals[name]:
                    raise Corrupt(f"{name} has {arrivals[name]} rows, {new[0]} were ingested", object_name=name)
                note(f"{new[0]:,} flights, {new[1]:,} hourly rows, {new[2]:,} daily rows")
        corrected = client.sql("SELECT op, count(*) AS n FROM `flights.hourly` GROUP BY op ORDER BY op", limit=10)
        self._say(f"  the late flights corrected what was published before: {_by_operation(corrected)}")

    def _check_events(self) -> None:
        with self._step("a signed delivery for every commit") as note:
            if not self._receiver.wait_for(self._commits, deadline_s=DELIVERIES_S_MAX) or self._receiver.refused:
                raise Corrupt(f"expected {self._commits}, received {self._receiver.received}", object_name="deliveries")
            note(f"{sum(self._commits.values())} commits, as many events, every signature good, no gap")

    def _verify_all(self, client: NodeBackend) -> None:
        with self._step("verify all: chains, hashes, re-execution of every transaction") as note:
            for name in self._extent.datasets:
                report = client.verify(name, VerifyWish())
                if not report["ok"]:
                    raise Corrupt(f"{name}: {report['errors']}", object_name=name)
            note("every byte is what it claims to be, every transaction gives the same rows again")

    def _share(self, node: RunningNode, client: NodeBackend, ending: ExitStack) -> None:
        with self._step("a second node pulls flights.hourly from the first one") as note:
            other = ending.enter_context(self._node("second", warm=False, peer=node))
            copy = self._client(other)
            copy.pull(SHARED, url=f"{node.url}/local/{SHARED}", recursive=False)
            ours, theirs = _head(client, SHARED), _head(copy, SHARED)
            objects = self._compare_objects(node)
            if ours != theirs:
                raise Corrupt(f"heads differ: {ours} and {theirs}", object_name=SHARED)
            note(f"same head …{ours[-8:]}, {objects} objects byte for byte the same")
        with self._step("flip one byte in the copy, verify it") as note:
            broken = _flip_byte(self._folder / "second")
            report = copy.verify(SHARED, VerifyWish(replay=False))
            errors = report["errors"]
            assert isinstance(errors, list)
            if not any(problem["object"] == broken for problem in errors):
                raise Corrupt("the flipped byte was not found", object_name=broken)
            note(f"{errors[0]['kind']} names the object {broken[:12]}…{broken[-8:]}")

    def _compare_objects(self, node: RunningNode) -> int:
        """How many objects the copy has, each byte for byte what the first node serves.

        Raises Corrupt.
        """
        headers = {"authorization": f"Bearer {node.token}"}
        paths = [
            path for path in (self._folder / "second" / "objects").glob("fed01*/*/*") if path.parent.name in FOLDERS
        ]
        with httpx.Client(base_url=f"{node.url}/local/{SHARED}/", trust_env=False, follow_redirects=True) as http:
            for path in paths:
                answer = http.get(f"{path.parent.name}/{path.name}", headers=headers)
                if answer.content != path.read_bytes():
                    raise Corrupt(f"{path.name} differs", object_name=path.name)
        return len(paths)

    def _summary(self, client: NodeBackend, seconds: float) -> None:
        datasets = [
            {
                "dataset": name,
                "rows": self._rows[name],
                "blocks": len(client.log(name, limit=1000)),
                "commits": self._commits[name],
            }
            for name in self._extent.datasets
        ]
        sampled = [name for name in ("planes", SHARED, "flights.daily") if name in self._extent.datasets]
        samples = {name: client.tail(name, limit=SAMPLE_ROWS, skip=0) for name in sampled}
        if self._output.as_json:
            document = {"ok": True, "seconds": round(seconds, 1), "steps": self._steps, "datasets": datasets}
            self._output.document({**document, "samples": samples})
            return
        self._output.rows(datasets, title="Datasets")
        for name, rows in samples.items():
            self._output.stored_rows(rows, title=f"Last rows of {name}")
        self._output.rows(self._steps, title="Time")
        self._say(
            f"Try next: `{program()} up` for a node of your own (its console is at that address), `{program()} init` and "
            f"`{program()} add` for a workspace, `{program()} demo --keep` to look at all this in a browser."
        )

    def _look_around(self, node: RunningNode, console: Callable[[Node, str], str | None]) -> None:
        """Serve on, so that somebody can look at the datasets in a browser."""
        with open_node(Settings(workspace=self._folder / "first", **EMBEDDED)) as own:
            link = console(own, node.url)
        self._say(
            f"\nLook at it: {link or node.url}\n"
            "  flights.hourly, Lineage: which datasets it comes from, and the SQL between them.\n"
            "  flights.hourly, Rows: the late flights came out as corrections; Profile of columns counts over all records.\n"
            f"{PLANES if self._extent.is_whole else ''}"
            "Ctrl-C ends the node; what it stores is kept."
        )
        with suppress(KeyboardInterrupt):
            threading.Event().wait()

    @contextmanager
    def _given_node(self) -> Iterator[RunningNode]:
        assert self._given is not None
        with self._step(f"the node at {self._given.url} does the work"):
            (self._polled / "arrivals").mkdir(exist_ok=True)
        yield RunningNode(url=self._given.url, token=self._given.token, engine="", pid=0)

    @contextmanager
    def _node(self, name: str, *, warm: bool, peer: RunningNode | None = None) -> Iterator[RunningNode]:
        (self._polled / "arrivals").mkdir(parents=True, exist_ok=True)
        named = Settings()
        reached = (peer.url, named.s3_public_endpoint_url) if peer else ()
        allowed = [urlsplit(url).netloc for url in reached if url] + [*named.egress_allow]
        settings = Settings(
            workspace=self._folder / name,
            poll_folder=None if peer else self._polled,
            egress_allow=(self._receiver.address, *allowed),
            remote_tokens={peer.url: peer.token} if peer else {},
            **(EMBEDDED if peer else {}),
        )
        with self._step(f"start the {name} node") as note, ExitStack() as ending:
            supervisor = Supervisor(settings, host="127.0.0.1", port=0, say=self._say, warm_engine=warm)
            node = ending.enter_context(supervisor.running())
            note(f"{node.url}, engine on gRPC {node.engine or 'only when needed'}")
            running = ending.pop_all()
        with running:
            yield node

    def _client(self, node: RunningNode) -> NodeBackend:
        def listen(progress: Mapping[str, object]) -> None:
            self._output.progress(f"  … {progress.get('stage', '')}")

        return NodeBackend(node.url, token=node.token, listener=listen)

    def _subscribe(self, node: RunningNode, name: str) -> str:
        answer = httpx.post(
            f"{node.url}/local/{name}/subscriptions",
            json={"url": self._receiver.url(name)},
            headers={"authorization": f"Bearer {node.token}"},
            timeout=30,
            trust_env=False,
        )
        answer.raise_for_status()
        return str(answer.json()["secret"])

    def _push(self, client: NodeBackend, name: str, path: Path) -> int:
        push = PushFile(
            path=str(path),
            name=str(path),
            source_name=None,
            media_type="text/csv",
            event_time=None,
            idempotency_key=uuid.uuid4().hex,
        )
        return self._count(name, client.push(name, push))

    def _pull(self, client: NodeBackend, name: str) -> int:
        return self._count(name, client.pull(name, url=None, recursive=False))

    def _followed(self, client: NodeBackend, name: str) -> int:
        """Wait until a derivative dataset has followed its input; how many rows that gave.

        Raises Corrupt if it failed, or does not come.
        """
        deadline = time.monotonic() + FOLLOW_S_MAX
        while time.monotonic() < deadline:
            (flow,) = client.flows.listed(name)
            new = [run for run in flow["runs"] if run["id"] not in self._runs_seen]
            if failed := [run["error"] for run in new if run["status"] == "failed"]:
                raise Corrupt(f"{name}: {failed[0]}", object_name=name)
            if new and all(run["status"] == "succeeded" for run in new):
                self._runs_seen |= {run["id"] for run in new}
                return sum(self._count(name, run["result"]) for run in new)
            time.sleep(LOOK_EVERY_S)
        raise Corrupt(f"{name} did not follow its input within {FOLLOW_S_MAX} s", object_name=name)

    def _count(self, name: str, result: Mapping[str, object]) -> int:
        rows, blocks = result["rows"], result["blocks"]
        assert isinstance(rows, int)
        self._rows[name] += rows
        self._commits[name] += 1 if blocks else 0
        return rows

    @contextmanager
    def _step(self, what: str) -> Iterator[_Note]:
        started = time.monotonic()
        self._output.progress(f"{len(self._steps) + 1:2}. {what} …")
        note = _Note()
        yield note
        seconds = time.monotonic() - started
        self._steps.append({"step": what, "seconds": round(seconds, 1)})
        self._say(f"{len(self._steps):2}. {what}  [{seconds:.1f} s]" + (f"\n    {note.text}" if note.text else ""))

    def _say(self, line: str) -> None:
        self._output.say(line)


class _Note:
    """What a step has to say when it is done."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, text: str) -> None:
        self.text = text


def _head(client: NodeBackend, name: str) -> str:
    return next(str(found["head"]) for found in client.datasets() if found["alias"] == f"local/{name}")


def _by_operation(rows: list[dict[str, object]]) -> str:
    names = {0: "+A", 1: "-R", 2: "-C", 3: "+C"}
    return ", ".join(f"{names[int(str(row['op']))]} {row['n']}" for row in rows)


def _flip_byte(workspace: Path) -> str:
    """Change one byte in the middle of a data slice of the copy.

    The name of the slice.
    """
    path = min((workspace / "objects").glob("fed01*/data/*"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    replacement = path.with_name(".damaged")
    replacement.write_bytes(damaged)
    shutil.move(replacement, path)
    return path.name

"""The scheduler under everything at once: nothing lost, doubled or stuck.

Each seed is a history of a node with a random graph of datasets: pushes, runs that are interrupted, workers that die with a job in hand, two
schedulers at once, calls that fail before or after their effect, people who pause and cancel, clocks that jump. Then peace: all
that follows its inputs has to hold exactly the rows of its last input.

More seeds: `ODF_FLOW_SEEDS=10000 pytest tests/usecases/jobs/test_flow_simulation.py`.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan, SeenCall
from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.flow import Every, FlowKind, FlowRule, Reactive, RetryPolicy, RunStatus
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.support.turns import examples
from tests.usecases.manifests import DERIVED, ROOT

SEEDS = int(os.environ.get("ODF_FLOW_SEEDS") or examples(60))
STEPS = 30
FAULT_RATE = 0.03
HOUR_MS = 3_600_000


class Weather:
    """Whether calls fail now."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.calm = True

    def __call__(self, number: int, call: SeenCall) -> Fault | None:
        if self.calm or self._chance.random() > FAULT_RATE:
            return None
        return self._chance.choice(call.faults)


class History:
    """A node with a root and derivatives, and what happens to it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.weather = Weather(self.chance)
        self.memory = MemoryNode(folder, interceptor=FaultPlan(self.weather), seed=seed)
        # Workers die here more often than a push is tried before it is given up.
        self.memory.settings = self.memory.settings.model_copy(update={"job_attempts_max": 1000})
        self.memory.restart(self.memory.interceptor)
        self.root = self.memory.add(ROOT)
        self.pushed = 0
        self.derived: list[CatalogEntry] = []
        self.last_input: dict[str, str] = {}
        names = ["readings"]
        for number in range(self.chance.randint(1, 5)):
            inputs = self.chance.sample(names, self.chance.randint(1, min(3, len(names))))
            name = f"derived-{number}"
            self.derived.append(self._add(name, inputs))
            self.last_input[name] = inputs[-1]
            names.append(name)

    def _add(self, name: str, inputs: list[str]) -> CatalogEntry:
        refs = ", ".join(f"{{datasetRef: {each}}}" for each in inputs)
        manifest = DERIVED.replace("name: copied", f"name: {name}")
        manifest = manifest.replace("[{datasetRef: readings}]", f"[{refs}]")
        return self.memory.add(manifest.replace("FROM readings", f"FROM {inputs[-1]}"))

    def happen(self) -> None:
        """One thing more."""
        acts = [
            self.push,
            self.relay,
            self.schedule,
            self.schedule,
            self.work,
            self.work,
            self.die,
            self.decide,
            self.jump,
        ]
        with suppress(OdfError):
            self.chance.choice(acts)()

    def push(self) -> None:
        row = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": str(self.pushed)}) + "\n"
        calm, self.weather.calm = self.weather.calm, True
        self.memory.node.requests.push(PushData(dataset=self.root.id, body=iter([row.encode()])))
        self.weather.calm = calm
        self.pushed += 1

    def relay(self) -> None:
        self.memory.node.background.relay_outbox()

    def schedule(self) -> None:
        """Either of two schedulers; their leases do not keep them apart here."""
        self.memory.node.flows.step(self.chance.choice(["one", "two"]))
        self.memory.clock.advance(self.chance.randint(0, 20_000))

    def work(self) -> None:
        run = self.memory.node.jobs.lease("worker")
        if run is not None:
            self.memory.node.jobs.run(run)

    def die(self) -> None:
        """A worker with a job in hand, or the whole node."""
        if self.chance.random() < 0.5:
            self.memory.node.jobs.lease("killed")
            self.memory.clock.advance(40_000)
        else:
            self.memory.restart(FaultPlan(self.weather))

    def jump(self) -> None:
        now = self.memory.clock.now()
        if self.chance.random() < 0.3:
            self.memory.clock.set(type(now)(now.epoch_ns - self.chance.randint(0, 2 * HOUR_MS) * 1_000_000))
        else:
            self.memory.clock.advance(self.chance.randint(0, 2 * HOUR_MS))

    def decide(self) -> None:
        """Somebody changes a flow or cancels a run."""
        flows, by = self.memory.node.flows, self.memory.node.operator
        entry = self.chance.choice(self.derived)
        match self.chance.randint(0, 5):
            case 0:
                flows.pause(entry, FlowKind.TRANSFORM, by=by)
            case 1:
                flows.resume(entry, FlowKind.TRANSFORM, by=by)
            case 2:
                flows.run_now(entry, FlowKind.TRANSFORM, by=by)
            case 3:
                runs = flows.of_dataset(entry, by=by)[0].runs
                if runs:
                    flows.cancel(runs[0].id, by=by)
            case _:
                rules = [
                    FlowRule(trigger=Reactive()),
                    FlowRule(trigger=Reactive(records_min=2, wait_s=60), retry=RetryPolicy(attempts_max=0)),
                    FlowRule(trigger=Every(60), failures_max=2),
                ]
                flows.set(entry, FlowKind.TRANSFORM, self.chance.choice(rules), by=by)

    def peace(self) -> None:
        """Nothing fails any more, everybody follows, and time passes."""
        self.weather.calm = True
        memory = self.memory
        for entry in self.derived:
            memory.node.flows.set(entry, FlowKind.TRANSFORM, FlowRule(trigger=Reactive()), by=memory.node.operator)
            memory.node.flows.resume(entry, FlowKind.TRANSFORM, by=memory.node.operator)
        for _ in range(6):
            memory.work()
            memory.clock.advance(HOUR_MS)
        memory.work()

    def rows(self, entry: CatalogEntry) -> int:
        _, state = self.memory.node.repository.current(entry.id)
        return state.next_offset


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_doubled_or_stuck(seed: int, tmp_path: Path) -> None:
    history = History(seed, tmp_path)
    history.weather.calm = False
    for _ in range(STEPS):
        history.happen()
    history.peace()
    node = history.memory.node
    rows = {"readings": history.rows(history.root)}
    assert rows["readings"] == history.pushed
    for entry in history.derived:
        name = str(entry.alias.name)
        rows[name] = history.rows(entry)
        assert rows[name] == rows[history.last_input[name]], f"{name} of seed {seed}"
        (seen,) = node.flows.of_dataset(entry, by=node.operator)
        assert seen.waits is None
        assert seen.flow.active
        assert all(run.status.final for run in seen.runs)
        assert not any(run.status is RunStatus.MISSED for run in seen.runs)
    assert not node.ports.jobs.page(unfinished_only=True, limit=9)
    assert not node.ports.flows.unfinished(limit=9)

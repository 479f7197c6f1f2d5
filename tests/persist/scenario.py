"""Runs the scenarios of the storage library: steps as data, on any pair of stores.

Each step may say what it expects, give the version that it made a name (`bind`), and say whether it made one (`new_seqno`,
`same_seqno`). An operation that is not known here fails the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfabric_persist import state as transitions
from odfabric_persist.batch import BatchLimits, new_id, retimed, rows_of, tightened, write_batch
from odfabric_persist.client import (
    CriticalHandle,
    Listener,
    PersistClient,
    PersistSettings,
    ReadHandle,
    Shard,
    WriteHandle,
)
from odfabric_persist.collect import collect, maintain
from odfabric_persist.compact import compact
from odfabric_persist.errors import (
    Corrupt,
    Expired,
    LocationError,
    NotYet,
    OpaqueMismatch,
    PersistError,
    SinceError,
    UpperMismatch,
    UsageError,
)
from odfabric_persist.keys import PART, ROLLUP
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.unreliable import Fault, Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.machine import FIRST_SEQNO, Machine, Patience
from odfabric_persist.merge import MergeLimits
from odfabric_persist.restore import restore_blobs
from odfabric_persist.rows import DIFF, TIME, RowCodec, advanced, between, concatenated
from odfabric_persist.splits import Split
from odfabric_persist.state import Batch, Part, State
from odfabric_persist.tiers import Choice, FanOut, choose

Step: TypeAlias = dict[str, Any]
CODEC = RowCodec(pa.schema([pa.field("key", pa.string())]), ("key",))
OTHER_CODEC = RowCodec(pa.schema([pa.field("key", pa.int64())]), ("key",))


def updates_of(listed: list[list[Any]]) -> pa.Table:
    """Rows [key, time, diff] as a table."""
    columns: list[list[Any]] = [[row[index] for row in listed] for index in range(3)]
    return pa.table({"key": pa.array(columns[0], pa.string()), TIME: columns[1], DIFF: columns[2]}, CODEC.update_schema)


def listed(updates: pa.Table) -> list[list[Any]]:
    """A table as rows [key, time, diff]."""
    return [[row["key"], row[TIME], row[DIFF]] for row in updates.to_pylist()]


@dataclass
class Runner:
    """One scenario on one location."""

    blob: Blob
    consensus: Consensus
    config: dict[str, Any]
    faults: Faults = field(default_factory=Faults)
    now_ms: int = 0
    clients: dict[str, PersistClient] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    merged_from: dict[str, tuple[str, ...]] = field(default_factory=dict)
    listeners: dict[str, Listener] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    rollups: dict[str, tuple[int, str]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=lambda: {"init": FIRST_SEQNO})
    remembered: int = 0
    hollow: State = field(default_factory=lambda: State("hollow", FIRST_SEQNO, CODEC.name, 0))
    choices: list[Choice] = field(default_factory=list)

    def run(self, steps: list[Step]) -> None:
        """All steps.

        Raises AssertionError naming the step that does not come out as it should.
        """
        for number, step in enumerate(steps):
            place = f"step {number}: {step}"
            before = self._seqno(step)
            try:
                found = self._do(step)
            except PersistError as error:
                found = _error(error)
            after = self._seqno(step)
            expected = step.get("expect", {})
            assert ("error" in found) == ("error" in expected), f"{place}: {found}"
            for name, value in expected.items():
                if name.startswith("max_"):
                    assert found[name.removeprefix("max_")] <= value, f"{place}: {found}"
                    continue
                assert self._resolved(found.get(name)) == self._resolved(value), f"{place}: {name} is {found.get(name)}"
            assert not step.get("same_seqno") or before == after, f"{place}: it made a version"
            assert not step.get("new_seqno") or before + 1 == after, f"{place}: it made {after - before} versions"
            if "bind" in step:
                self.names[step["bind"]] = after

    def _do(self, step: Step) -> dict[str, Any]:
        name = "_" + step["do"].replace("-", "_")
        operation: Callable[[Step], dict[str, Any] | None] | None = getattr(self, name, None)
        assert operation is not None, f"an operation that this test does not know: {step['do']}"
        return operation(step) or {}

    def _resolved(self, value: Any) -> Any:
        """Names of versions as their numbers."""
        if isinstance(value, str):
            return self.names.get(value, value)
        if isinstance(value, list):
            return [self._resolved(item) for item in value]
        if isinstance(value, dict):
            return {key: self._resolved(item) for key, item in value.items()}
        return value

    def _number(self, value: Any) -> int:
        return self.names[value] if isinstance(value, str) else int(value)

    def _seqno(self, step: Step) -> int:
        head = self.consensus.head(step.get("shard", "s"))
        return 0 if head is None else head.seqno

    def client(self, name: str = "A") -> PersistClient:
        """A client with its own copies of everything."""
        if name not in self.clients:
            lease_ms = self.config.get("lease_ms", 900_000)
            inline = 4096 if self.config.get("inline_writes", True) else 0
            settings = PersistSettings(
                reader_lease_ms=lease_ms, writer_lease_ms=lease_ms, limits=BatchLimits(inline_bytes_max=inline)
            )
            self.clients[name] = PersistClient(
                UnreliableBlob(self.blob, self.faults),
                UnreliableConsensus(self.consensus, self.faults),
                settings,
                now_ms=lambda: self.now_ms,
                wait=lambda _: None,
            )
        return self.clients[name]

    def shard(self, step: Step) -> Shard:
        """The shard of a step."""
        return self.client(step.get("client", "A")).open(step.get("shard", "s"), CODEC)

    def writer(self, step: Step) -> WriteHandle:
        """The writer of a step, registered or not."""
        return WriteHandle(self.shard(step), step["writer"])

    def reader(self, step: Step) -> ReadHandle:
        """The reader of a step."""
        return ReadHandle(self.shard(step), step["reader"], 0)

    # handles

    def _open_writer(self, step: Step) -> dict[str, Any]:
        return {"upper": self.shard(step).open_writer(step["writer"]).recent_upper()}

    def _open_reader(self, step: Step) -> dict[str, Any]:
        return {"since": self.shard(step).open_reader(step["reader"]).since}

    def _open_critical(self, step: Step) -> dict[str, Any]:
        since, opaque = self.shard(step).open_critical(step["critical"]).hold
        return {"since": since, "opaque": opaque}

    def _heartbeat_writer(self, step: Step) -> None:
        self.writer(step).heartbeat()

    def _heartbeat_reader(self, step: Step) -> None:
        self.reader(step).heartbeat()

    def _expire_writer(self, step: Step) -> None:
        self.writer(step).expire()

    def _expire_reader(self, step: Step) -> None:
        self.reader(step).expire()

    def _expire_critical(self, step: Step) -> None:
        CriticalHandle(self.shard(step), step["critical"]).expire()

    def _expire_due(self, step: Step) -> dict[str, Any]:
        return {"expired": self.shard(step).expire_due()}

    def _clock(self, step: Step) -> None:
        self.now_ms += step["ms"]

    def _reopen_with_codec(self, step: Step) -> None:
        self.client(step.get("client", "A")).open(step.get("shard", "s"), OTHER_CODEC)

    def _restart(self, _: Step) -> None:
        self.clients.clear()
        self.listeners.clear()

    # writes

    def _compare_and_append(self, step: Step) -> dict[str, Any]:
        expected, upper = step["expected_upper"], step["new_upper"]
        writer = self.writer(step)
        found = writer.compare_and_append(updates_of(step["updates"]), expected, upper, token=step.get("token"))
        return {"upper": found}

    def _append(self, step: Step) -> dict[str, Any]:
        return {"upper": self.writer(step).append(updates_of(step["updates"]), step["lower"], step["new_upper"])}

    def _recent_upper(self, step: Step) -> dict[str, Any]:
        return {"upper": self.writer(step).recent_upper()}

    def _write_batch(self, step: Step) -> dict[str, Any]:
        batch = write_batch(
            self.shard(step).parts,
            updates_of(step["updates"]),
            step["lower"],
            step["upper"],
            since=step.get("since", 0),
            chunk_rows=step.get("chunk_rows"),
        )
        self.batches[step["batch"]] = batch
        return _shown(batch)

    def _append_batch(self, step: Step) -> dict[str, Any]:
        batch = self.batches[step["batch"]]
        return self._append_written(step, [batch], step.get("lower", batch.lower), step.get("upper", batch.upper))

    def _append_batches(self, step: Step) -> dict[str, Any]:
        batches = [self.batches[name] for name in step["batches"]]
        lower = step.get("lower", step.get("expected_upper", batches[0].lower))
        return self._append_written(step, batches, lower, step.get("upper", step.get("new_upper", batches[-1].upper)))

    def _append_written(self, step: Step, batches: list[Batch], lower: Any, upper: Any) -> dict[str, Any]:
        known = bool(step.get("prev_indeterminate"))
        writer = self.writer(step)
        found = writer.append_batches(batches, lower, upper, token=step.get("token"), previous_unknown=known)
        return {"upper": found}

    def _tighten(self, step: Step) -> None:
        batch = tightened(self.batches[step["batch"]], step["lower"], step["upper"])
        self.batches[step["as"]] = batch

    def _retime(self, step: Step) -> None:
        batch = self.batches[step["batch"]]
        self.batches[step.get("as", step["batch"])] = retimed(batch, step["frontier"], step["upper"])

    def _append_many_and_compact(self, step: Step) -> dict[str, Any]:
        shard, count = self.shard(step), step.get("n", step.get("count", 100))
        writer = shard.open_writer(step.get("writer"))
        start = shard.newest().upper
        assert start is not None
        written = longest = 0
        for time in range(start, start + count):
            writer.compare_and_append(updates_of([[f"k{time:06}", time, 1]]), time, time + 1)
            written += shard.maintain().rows_written
            longest = max(longest, len(shard.newest().batches))
        shown = self._trace_batches(step)["batches"]
        return {"bounds": shown, "batches": longest, "amplification": written / count}

    def _parallel_append(self, step: Step) -> dict[str, Any]:
        def work(number: int) -> None:
            writer = self.client(f"parallel-{number}").open("s", CODEC).open_writer()
            for batch in step["batches"]:
                writer.append(updates_of(batch["updates"]), batch["lower"], batch.get("new_upper", batch.get("upper")))

        return self._parallel(step, work)

    def _parallel_caa(self, step: Step) -> dict[str, Any]:
        commits: list[int] = []

        def work(number: int) -> None:
            writer = self.client(f"parallel-{number}").open("s", CODEC).open_writer()
            for turn in range(step["each"]):
                while True:
                    upper = writer.recent_upper()
                    assert upper is not None
                    try:
                        writer.compare_and_append(updates_of([[f"{number}-{turn}", upper, 1]]), upper, upper + 1)
                    except UpperMismatch:
                        continue
                    commits.append(upper)
                    break

        return self._parallel(step, work) | {"commits": len(commits)}

    def _parallel(self, step: Step, work: Callable[[int], None]) -> dict[str, Any]:
        threads = step.get("threads", step.get("clients", step.get("writers", 4)))
        for number in range(threads):
            self.client(f"parallel-{number}")
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        return {"upper": self.shard(step).newest().upper}

    # reads

    def _snapshot(self, step: Step) -> dict[str, Any]:
        return {"rows": listed(self.shard(step).snapshot(step["as_of"]))}

    def _snapshot_count(self, step: Step) -> dict[str, Any]:
        upper = self.shard(step).newest().upper
        assert upper is not None
        rows = self.shard(step).snapshot(upper - 1)
        total = pc.sum(rows.column(DIFF)).as_py() or 0
        return {"rows": rows.num_rows, "count": rows.num_rows, "diff": total, "diff_sum": total, "sum": total}

    def _snapshot_splits(self, step: Step) -> dict[str, Any]:
        shard, count = self.shard(step), step.get("splits", step.get("n", step.get("count", 1)))
        texts = [split.to_json() for split in shard.snapshot_splits(step["as_of"], count)]
        names = step.get("as", [])
        for number, text in enumerate(texts):
            self.splits[names[number] if isinstance(names, list) and number < len(names) else f"{names}{number}"] = text
        fetching = self.client(step.get("fetch_with", "A")).open(step.get("shard", "s"), CODEC)
        tables = [fetching.fetch_split(Split.from_json(text)) for text in texts]
        return {"count": len(texts), "rows": listed(CODEC.consolidated(concatenated(tables, CODEC.update_schema)))}

    def _fetch_split(self, step: Step) -> dict[str, Any]:
        return {"rows": listed(self.shard(step).fetch_split(Split.from_json(self.splits[step["split"]])))}

    def _listen(self, step: Step) -> None:
        self.listeners[step["listen"]] = (
            self.reader(step).listen(step["as_of"]) if "reader" in step else self._follow(step)
        )

    def _follow(self, step: Step) -> Listener:
        return ReadHandle(self.shard(step), "", 0).listen(step["as_of"])

    def _listen_through(self, step: Step) -> dict[str, Any]:
        listener, until = self.listeners[step["listen"]], step["until"]
        tables = []
        while listener.frontier is not None and (until is None or listener.frontier < until):
            updates = listener.poll()
            if updates is None:
                raise NotYet(listener.frontier)
            tables.append(updates)
        rows = CODEC.consolidated(concatenated(tables, CODEC.update_schema))
        return {"rows": listed(rows), "frontier": listener.frontier}

    def _listen_poll(self, step: Step) -> dict[str, Any]:
        listener = self.listeners[step["listen"]]
        updates = listener.poll()
        rows = [] if updates is None else listed(updates)
        return {"rows": rows, "frontier": listener.frontier, "progress": updates is not None}

    def _definite(self, step: Step) -> dict[str, Any]:
        as_of, through = step["as_of"], step["through"]
        tables = [self.shard(step).snapshot(as_of)]
        listener = self._follow(step)
        while listener.frontier is not None and listener.frontier <= through:
            updates = listener.poll()
            if updates is None:
                raise NotYet(listener.frontier)
            tables.append(between(updates, 0, through + 1))
        together = advanced(concatenated(tables, CODEC.update_schema), through)
        return {"rows": listed(CODEC.consolidated(together))}

    def _shard_desc(self, step: Step) -> dict[str, Any]:
        state = self.shard(step).newest()
        return {"since": state.since, "upper": state.upper}

    def _is_finalized(self, step: Step) -> dict[str, Any]:
        return {"finalized": self.shard(step).newest().tombstone}

    # since

    def _downgrade_since(self, step: Step) -> dict[str, Any]:
        return {"since": self.reader(step).downgrade_since(step["since"])}

    def _compare_and_downgrade_since(self, step: Step) -> dict[str, Any]:
        critical = CriticalHandle(self.shard(step), step["critical"])
        since = critical.compare_and_downgrade_since(step["expect_opaque"], step["opaque"], step["since"])
        return {"since": since, "opaque": critical.hold[1]}

    # compaction

    def _fetch_batch(self, step: Step) -> dict[str, Any]:
        parts, batch = self.shard(step).parts, self.batches[step["batch"]]
        try:
            rows = rows_of(parts, batch)
            shown = [listed(parts.read(part)) for part in batch.parts]
        except Corrupt:
            return {"missing": True}
        return {
            "rows": listed(CODEC.consolidated(advanced(rows, step.get("as_of")))),
            "parts": shown,
            "runs": _runs(batch),
            "run_count": len(batch.runs),
        }

    def _compact(self, step: Step) -> dict[str, Any]:
        inputs = [self.batches[name] for name in step["inputs"]]
        shard = self.shard(step)
        bounds = step.get("lower", inputs[0].lower), step.get("upper", inputs[-1].upper)
        limits = MergeLimits(rows_max=step.get("max_rows_in_memory", MergeLimits().rows_max))
        batch = compact(shard.parts, inputs, *bounds, step["since"], chunk_rows=step.get("chunk_rows"), limits=limits)
        self.batches[step["as"]] = batch
        self.merged_from[step["as"]] = tuple(one.id for one in inputs)
        return _shown(batch) | {"content": listed(rows_of(shard.parts, batch))}

    def _compact_until_one_run(self, step: Step) -> dict[str, Any]:
        shard, batch = self.shard(step), self.batches[step["batch"]]
        for _ in range(step.get("max_rounds", 10)):
            if len(batch.runs) <= 1:
                break
            batch = compact(shard.parts, [batch], batch.lower, batch.upper, batch.since)
        self.batches[step.get("as", step["batch"])] = batch
        return _shown(batch) | {"run_count": len(batch.runs)}

    def _apply_merge(self, step: Step) -> dict[str, Any]:
        name = step.get("batch", step.get("merge", step.get("output", "")))
        inputs = tuple(self.batches[one].id for one in step["inputs"]) if "inputs" in step else self.merged_from[name]
        output, machine = self.batches[name], self.shard(step).machine
        state = machine.apply(lambda state: transitions.apply_merge(state, inputs, output, now_ms=self.now_ms))
        return {"applied": any(batch.id == output.id for batch in state.batches)}

    def _trace_batches(self, step: Step) -> dict[str, Any]:
        return {"batches": [[one.lower, one.upper] for one in self.shard(step).newest().batches]}

    # the list of batches alone, without rows

    def _push_hollow(self, step: Step) -> None:
        rows = step.get("len", 1)
        runs = ((Part(rows, 0, 0, key="hollow"),),) if rows else ()
        pushed = Batch(new_id(), step["lower"], step["upper"], step.get("since", 0), runs)
        self.hollow = replace(self.hollow, upper=pushed.upper, batches=(*self.hollow.batches, pushed))

    def _spine_batches(self, _: Step) -> dict[str, Any]:
        return {"batches": [[one.lower, one.upper, one.rows] for one in self.hollow.batches]}

    def _take_merge_requests(self, step: Step) -> dict[str, Any]:
        self.hollow = transitions.join_empty(self.hollow, now_ms=0)
        self.choices = choose(self.hollow.batches, FanOut(**step.get("fan_out", {})))
        bounds = [self.hollow.batches[one.start : one.stop] for one in self.choices]
        return {"requests": [[inputs[0].lower, inputs[-1].upper] for inputs in bounds]}

    def _apply_hollow_merge(self, step: Step) -> dict[str, Any]:
        choice = self.choices[step.get("request", 0)]
        inputs = self.hollow.batches[choice.start : choice.stop]
        rows = step.get("len", sum(one.rows for one in inputs))
        runs = ((Part(rows, 0, 0, key="hollow"),),) if rows else ()
        output = Batch(new_id(), inputs[0].lower, inputs[-1].upper, self.hollow.since, runs, choice.level)
        before = self.hollow
        names = tuple(one.id for one in inputs)
        self.hollow = transitions.apply_merge(before, names, output, now_ms=0)
        return {"applied": self.hollow is not before}

    # versions and collection

    def _finalize(self, step: Step) -> None:
        self.shard(step).finalize()

    def _write_rollup(self, step: Step) -> dict[str, Any]:
        rollup = self.shard(step).machine.write_rollup()
        self.rollups[step["as"]] = rollup
        return {"state": rollup[0]}

    def _add_rollup(self, step: Step) -> dict[str, Any]:
        seqno, key = self.rollups[step["rollup"]]
        machine = self.shard(step).machine
        state = machine.apply(lambda state: transitions.add_rollup(state, seqno, key, now_ms=self.now_ms))
        return {"applied": state.rollups[seqno] == key}

    def _gc(self, step: Step) -> dict[str, Any]:
        found = collect(self.shard(step).machine, self._number(step["to"]))
        return {
            "parts": found.parts,
            "rollups": found.rollups,
            "truncated": found.truncated,
            "state_rollups": list(found.removed_rollups),
        }

    def _maintain(self, step: Step) -> dict[str, Any]:
        found = maintain(self.shard(step).machine)
        return {"parts": found.parts, "rollups": found.rollups}

    def _live_states(self, step: Step) -> dict[str, Any]:
        names = {batch.id: name for name, batch in self.batches.items()}
        return {"states": [_live(state, names) for state in self._states(step, self._number(step.get("from", 0)))]}

    def _states(self, step: Step, start: int = 0) -> list[State]:
        return list(self.shard(step).machine.states_from(start))

    def _consensus_truncate(self, step: Step) -> dict[str, Any]:
        seqno = self._number(step.get("to", step.get("seqno")))
        return {"removed": self.consensus.truncate(step.get("shard", "s"), seqno)}

    def _consensus_count(self, step: Step) -> None:
        assert len(self.consensus.scan(step.get("shard", "s"), 0, 1 << 20)) <= step["max"]

    def _blob_count(self, step: Step) -> dict[str, Any]:
        keys = [entry.key for entry in self.blob.list(f"{step.get('shard', 's')}/")]
        return {"parts": sum(PART in key for key in keys), "rollups": sum(ROLLUP in key for key in keys)}

    def _check_refs(self, step: Step) -> None:
        named = {key for state in self._states(step) for key in state.blob_keys}
        present = {entry.key for entry in self.blob.list("")}
        live_rollups = set(self.shard(step).newest().rollups.values())
        # A rollup leaves the state first and the store one collection later, so old versions may name one that is gone.
        gone = {key for key in named - present if PART in key or key in live_rollups}
        assert not gone, f"named and gone: {gone}"

    def _leaked(self, step: Step) -> dict[str, Any]:
        named = {key for state in self._states(step) for key in state.blob_keys}
        parts = [entry.key for entry in self.blob.list(f"{step.get('shard', 's')}/") if PART in entry.key]
        return {"count": len([key for key in parts if key not in named]), "parts": len(set(parts) - named)}

    def _clear_blob(self, _: Step) -> None:
        for entry in list(self.blob.list("")):
            self.blob.delete(entry.key)

    def _restore_blobs(self, step: Step) -> None:
        client = self.client(step.get("client", "A"))
        patience = Patience(attempts_max=1, wait=client.wait)
        name = step.get("shard", "s")
        restore_blobs(Machine(name, CODEC.name, client.blob, client.consensus, client.now_ms, patience))

    def _remember_seqno(self, step: Step) -> None:
        self.remembered = self._seqno(step)

    def _seqno_unchanged(self, step: Step) -> None:
        assert self._seqno(step) == self.remembered

    def _inject(self, step: Step) -> None:
        operation = {"cas": "compare_and_set"}.get(step["op"], step["op"])
        self.faults.next(f"{step['on']}.{operation}", Fault(step["effect"]))


def _shown(batch: Batch) -> dict[str, Any]:
    return {"parts": len(batch.parts), "len": batch.rows, "runs": _runs(batch)}


def _runs(batch: Batch) -> list[list[int]]:
    """Numbers of parts, run by run."""
    found: list[list[int]] = []
    position = 0
    for run in batch.runs:
        found.append(list(range(position, position + len(run))))
        position += len(run)
    return found


def _live(state: State, names: dict[str, str]) -> dict[str, Any]:
    batches = [names.get(batch.id, batch.id) for batch in state.batches]
    return {"seqno": state.seqno, "batches": batches, "rollups": sorted(state.rollups)}


def _error(error: PersistError) -> dict[str, Any]:
    match error:
        case UpperMismatch():
            return {"error": "upper-mismatch", "current": error.current}
        case SinceError():
            return {"error": "since", "since": error.since}
        case NotYet():
            return {"error": "not-yet", "upper": error.upper}
        case Expired():
            return {"error": "expired"}
        case OpaqueMismatch():
            return {"error": "opaque-mismatch", "opaque": error.actual, "actual": error.actual, "since": error.since}
        case UsageError():
            return {"error": "usage", "kind": error.kind}
        case LocationError():
            return {"error": "location"}
    raise error

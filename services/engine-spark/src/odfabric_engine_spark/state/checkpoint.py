"""Checkpoints: what is kept from one transaction to the next, read and written.

Owns what a file says: positions, watermarks, the query, and of each state its runs, which lie in the file itself or in one of its
`bases`, earlier checkpoints that are known by their hash. Invariant: equal histories are equal files, byte by byte; a file that
another query or a newer engine wrote is refused with a reason; a file whose reader did not tell its hash is never built on, so
anyone who gives none gets files without bases. Not here: what runs mean (`row_state`, `operators.aggregate.group_state`), when they are
merged (`compaction_tiers`). Source: docs/engine.md#order-of-the-output; docs/engine.md#checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric.model.instant import Instant
from odfabric_engine_spark.arrays.mapped_files import MappedFiles
from odfabric_engine_spark.state.checkpoint_file import CheckpointFile, open_file, write_file
from odfabric_engine_spark.state.checkpoint_refusal import damaged, refused
from odfabric_engine_spark.state.row_state import RowState, stored_schema
from odfabric_engine_spark.state.run import Run, RunFile, StoredAt
from odfabric_engine_spark.state.run_file import PARTS, WrittenPart, WrittenRun, open_run
from odfabric_engine_spark.state.stored_runs import StateToStore, StateWork

SMALL_BYTES = 64 << 10
"""Stored states of this size together are written again each time: there is nothing to be saved."""
FULL_EVERY = 16
FULL_BYTES = 16 << 20
"""Those of this size are written again at least every `FULL_EVERY` transactions; larger ones by tiers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPosition:
    """How far an input was read: offset of its next row, and its watermark so far.

    `columns` is the schema that it had, as JSON; None in checkpoints of before.
    """

    dataset_id: str
    next_offset: int
    watermark: Instant | None
    columns: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State after a transaction.

    `fingerprint` distinguishes the query, `states` are its states by name.
    """

    fingerprint: str
    inputs: tuple[InputPosition, ...]
    watermark: Instant | None
    states: Mapping[str, StateToStore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _StoredRun:
    """A run of a checkpoint.

    `at` is how the next one names it, None if its reader did not tell the hash of the file.
    """

    file: RunFile
    body: Mapping[str, pa.Buffer]
    at: StoredAt | None


class StoredCheckpoint:
    """A checkpoint as the next transaction finds it.

    States are opened by name; one that it does not have is empty.

    `since_full` counts the files since the last one without bases.
    """

    def __init__(self, file: CheckpointFile, *, name: str, runs: Mapping[str, Sequence[_StoredRun]]) -> None:
        """Raises InvalidData if the header is damaged."""
        self.name, self._runs, self._tables = name, runs, file.tables
        with damaged(name):
            header = file.header
            self.fingerprint = str(header["query"])
            self.watermark = _instant(header["watermark"])
            self.since_full = int(header.get("sinceFull", 0))
            self._dropped = {str(each["name"]): _optional(each["droppedTo"]) for each in header.get("states", ())}
            self.inputs = tuple(
                InputPosition(
                    dataset_id=str(each["datasetId"]),
                    next_offset=int(each["nextOffset"]),
                    watermark=_instant(each["watermark"]),
                    columns=None if each.get("columns") is None else str(each["columns"]),
                )
                for each in header["inputs"]
            )

    @property
    def state_names(self) -> list[str]:
        """States that it has."""
        return sorted({*self._runs, *self._tables})

    def rows(self, name: str, schema: pa.Schema, *, timed: bool, work: StateWork) -> RowState:
        """Rows by key: `schema` are their own columns.

        Raises InvalidData if the file is damaged.
        """
        runs = self.runs(name, stored_schema(schema, timed=timed))
        return RowState(schema, timed=timed, work=work, runs=runs, dropped_to_us=self.dropped_to_us(name))

    def dropped_to_us(self, name: str) -> int | None:
        """The instant up to which a state dropped final rows, microseconds, or None.

        Microseconds since the epoch; None if it drops nothing.
        """
        return self._dropped.get(name)

    def table(self, name: str) -> pa.Table | None:
        """A state that lies in one table, as in checkpoints of before."""
        return self._tables.get(name)

    def runs(self, name: str, schema: pa.Schema) -> list[Run]:
        """The runs of a state. Raises InvalidData if the file is damaged."""
        runs = []
        for each in self._runs.get(name, ()):
            run = open_run(each.body, each.file, schema)
            run.stored_at = each.at
            runs.append(run)
        return runs


def read_checkpoint(
    path: Path,
    *,
    name: str,
    own_hash: str | None = None,
    bases: Mapping[str, Path] | None = None,
    mapped: MappedFiles | None = None,
) -> StoredCheckpoint:
    """The state in a file called `name`, with its bases by hash.

    Users know the name; `mapped` are the files of this process.

    Raises InvalidData if it is not one of ours, damaged, or builds on a file that is not given.
    """
    files = {"": open_file(path, name=name, mapped=mapped)}
    with damaged(name):
        known = [str(each) for each in files[""].header["bases"]]
    for base in known:
        if base not in (bases or {}):
            raise refused(name, "checkpoint-incomplete", f"the checkpoint builds on {base}, which is missing")
        files[base] = open_file((bases or {})[base], name=base, mapped=mapped)
    with damaged(name):
        runs = {
            str(state["name"]): [_stored_run(each, files, own_hash, name) for each in state["runs"]]
            for state in files[""].header.get("states", ())
        }
    return StoredCheckpoint(files[""], name=name, runs=runs)


def bases_of(path: Path, *, name: str) -> list[str]:
    """Hashes of the files that a checkpoint builds on. Raises InvalidData."""
    file = open_file(path, name=name)
    with damaged(name):
        return [str(each) for each in file.header["bases"]]


def write_checkpoint(path: Path, checkpoint: Checkpoint, *, after: StoredCheckpoint | None = None) -> None:
    """Writes what a transaction has left; `after` is what it has found.

    OSError passes through.
    """
    stored = sum(state.kept_bytes for state in checkpoint.states.values())
    since_full = 0 if after is None else after.since_full + 1
    whole = stored <= SMALL_BYTES or (since_full >= FULL_EVERY and stored <= FULL_BYTES)
    states: list[dict[str, Any]] = []
    parts: dict[str, WrittenPart] = {}
    for name in sorted(checkpoint.states):
        state = checkpoint.states[name]
        listed = []
        for run in state.to_store(whole=whole):
            if isinstance(run, WrittenRun):
                own = f"{name}/{len(parts) // len(PARTS)}"
                parts.update({_part(own, part): written for part, written in run.parts.items()})
                listed.append({"file": "", "name": own, "rows": list(run.batch_rows), "never": run.never})
            else:
                listed.append(_kept(run))
        states.append({"name": name, "droppedTo": state.dropped_to_us, "runs": listed})
    bases = dict.fromkeys(run["file"] for state in states for run in state["runs"] if run["file"])
    header = {
        "bases": list(bases),
        "sinceFull": since_full if bases else 0,
        "query": checkpoint.fingerprint,
        "watermark": _nanos(checkpoint.watermark),
        "inputs": [
            {
                "datasetId": position.dataset_id,
                "nextOffset": position.next_offset,
                "watermark": _nanos(position.watermark),
                **({} if position.columns is None else {"columns": position.columns}),
            }
            for position in checkpoint.inputs
        ],
        "states": states,
    }
    write_file(path, header, parts)


def _kept(run: Run) -> dict[str, Any]:
    assert run.stored_at is not None
    return {
        "file": run.stored_at.file,
        "name": run.stored_at.name,
        "rows": [int(end - start) for start, end in zip(run.starts[:-1], run.starts[1:], strict=True)],
        "never": run.close_times.never,
    }


def _stored_run(
    said: Mapping[str, Any], files: Mapping[str, CheckpointFile], own_hash: str | None, known_as: str
) -> _StoredRun:
    file, name = str(said["file"]), str(said["name"])
    parts = {part: files[file].parts[_part(name, part)] for part in PARTS}
    body = {part: files[file].part(_part(name, part)) for part in PARTS}
    known = file or own_hash
    at = None if known is None else StoredAt(known, name)
    batch_rows = tuple(int(count) for count in said["rows"])
    return _StoredRun(RunFile(parts, batch_rows, bool(said["never"]), known_as), body, at)


def _part(run: str, part: str) -> str:
    return f"{run}/{part}"


def _optional(number: object) -> int | None:
    return None if number is None else int(str(number))


def _nanos(instant: Instant | None) -> int | None:
    return None if instant is None else instant.epoch_ns


def _instant(nanos: object) -> Instant | None:
    return None if nanos is None else Instant(int(str(nanos)))

"""The file that an aggregate task writes: changed groups and new runs.

Owns its parts by name. Invariant: runs are those that the engine's process itself would have made. Not here: the bytes around the
parts (`state.checkpoint_file`), what versions and runs mean (`group_versions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.operators.aggregate.group_state import GroupState
from odfabric_engine_spark.operators.aggregate.group_versions import Advanced, GroupStates, Versions
from odfabric_engine_spark.state.checkpoint_file import open_file, write_file
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import Run, RunFile
from odfabric_engine_spark.state.run_file import PARTS, WrittenPart, open_run_file, write_run

_GROUPS = "groups"
_ROWS, _TOLD = "versions", "told"
_NAME = "a part of the groups"
"""What users would read of such a file, if they ever were."""


def write_group_file(path: Path, advanced: Advanced) -> None:
    """Writes all that `GroupVersions.advanced` gives.

    A file that is there already is replaced. OSError passes through.
    """
    runs = {_GROUPS: advanced.groups, **{_values_name(at): run for at, run in advanced.values.items()}}
    parts: dict[str, WrittenPart] = {}
    said: dict[str, Any] = {}
    for name, run in runs.items():
        written = write_run(run.schema, path.parent, [(run.hashes, run.slice(0, len(run)))])
        parts.update({f"{name}/{part}": body for part, body in written.parts.items()})
        said[name] = {"rows": list(written.batch_rows), "never": written.never}
    versions = advanced.versions
    told = {"was": versions.was, "now": versions.now, "step": versions.steps, "key": versions.keys}
    if versions.ends is not None:
        told["end"] = versions.ends
    parts[_ROWS] = _written(versions.rows, path.parent)
    parts[_TOLD] = _written(pa.table(told), path.parent)
    write_file(path, {"bases": [], "runs": said}, parts)
    for part in parts.values():
        part.discard()


@dataclass(frozen=True, slots=True)
class GroupFile:
    """Such a file, opened."""

    versions: Versions
    _runs: Mapping[str, RunFile]

    @classmethod
    def opened(cls, path: Path) -> GroupFile:
        """Raises InvalidData if it is damaged; OSError passes through."""
        file = open_file(path, name=_NAME)
        rows, told = (pa.ipc.open_stream(file.part(name)).read_all() for name in (_ROWS, _TOLD))
        columns = {name: one_array(told.column(name)) for name in told.column_names}
        was, now, steps = (columns[name].to_numpy() for name in ("was", "now", "step"))
        ends = columns["end"].to_numpy() if "end" in columns else None
        runs = {
            name: RunFile(
                {part: file.parts[f"{name}/{part}"] for part in PARTS}, tuple(said["rows"]), said["never"], _NAME
            )
            for name, said in file.header["runs"].items()
        }
        return cls(Versions(rows, was, now, steps, columns["key"], ends), runs)

    def groups(self, state: GroupState) -> Run:
        """What groups are from now on; of `state` it takes the columns."""
        return open_run_file(self._runs[_GROUPS], state.stored_schema)

    def values(self, states: GroupStates) -> dict[int, Run]:
        """What is added to the values of statistics."""
        return {at: self._values(at, each.rows) for at, each in states.values.items()}

    def _values(self, statistic: int, state: RowState) -> Run:
        return open_run_file(self._runs[_values_name(statistic)], state.stored_schema)


def _values_name(statistic: int) -> str:
    return f"values{statistic}"


def _written(table: pa.Table, scratch: Path) -> WrittenPart:
    part = WrittenPart(scratch)
    with pa.ipc.new_stream(pa.PythonFile(part, "w"), table.schema) as writer:
        writer.write_table(table)
    return part

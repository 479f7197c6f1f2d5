"""What checkpoints hold, whatever runs it lies in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from odfabric_engine_spark.operators.aggregate.group_state import stored_groups
from odfabric_engine_spark.state.checkpoint import read_checkpoint
from odfabric_engine_spark.state.checkpoint_file import open_file
from odfabric_engine_spark.state.run import CLOSES, WEIGHT
from odfabric_engine_spark.state.stored_runs import StateWork


def groups_of(path: Path, name: str = "groups") -> pa.Table | None:
    """All groups, or all rows, of a state in a checkpoint that stands alone.

    None if it has none.
    """
    file = open_file(path, name=path.name)
    (state,) = [each for each in file.header["states"] if each["name"] == name]
    if not state["runs"]:
        return None
    stored = pa.ipc.open_file(file.parts[f"{state['runs'][0]['name']}/rows"].mapped()).schema
    end_column = "known from the runs" if CLOSES in stored.names else None
    schema = pa.schema([field for field in stored if field.name not in (WEIGHT, CLOSES)])
    work = StateWork(scratch=path.parent, piece_rows=1_000, added_bytes_max=1 << 20, check=lambda: None)
    kept = read_checkpoint(path, name=path.name)
    if ".values" in name or ".leaf" in name:
        rows = kept.rows(name, schema, timed=end_column is not None, work=work)
        found = list(rows.everything(1_000))
        return pa.concat_tables(found) if found else None
    groups = stored_groups(kept, name, schema, (), end_column=end_column, work=work)
    return pa.concat_tables(groups.everything(1_000))


def rows_left(path: Path) -> dict[str, int]:
    """How many rows or groups each state of a checkpoint has, if it has any.

    The checkpoint stands alone.
    """
    found = {name: groups_of(path, name) for name in read_checkpoint(path, name=path.name).state_names}
    return {name: table.num_rows for name, table in found.items() if table is not None}


def contents_of(path: Path) -> Mapping[str, object]:
    """All that a checkpoint says of a transaction: equal for equal states.

    In whatever steps the states came about.
    """
    kept = read_checkpoint(path, name=path.name)
    groups = {name: groups_of(path, name) for name in kept.state_names}
    return {
        "query": kept.fingerprint,
        "watermark": kept.watermark,
        "inputs": kept.inputs,
        "groups": {name: None if table is None else table.to_pylist() for name, table in groups.items()},
    }

"""Work begun in one process and finished in another.

Portions of a snapshot travel, a hold is taken over, a writer dies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.errors import OpaqueMismatch
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.rows import DIFF
from odfabric_persist.verify import verify
from tests.persist.scenario import CODEC, updates_of

OTHER_PROCESS = """
import json, sys
from pathlib import Path
import pyarrow as pa
from odfabric_persist.client import PersistClient
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.rows import RowCodec
from odfabric_persist.splits import Split

folder = Path(sys.argv[1])
client = PersistClient(FolderBlob(folder / "blobs"), SqliteConsensus(folder / "versions.db"))
shard = client.open("s", RowCodec(pa.schema([pa.field("key", pa.string())]), ("key",)))
rows = [row for text in sys.stdin for row in shard.fetch_split(Split.from_json(text)).to_pylist()]
since, mark = shard.open_critical("only").hold
shard.open_critical("only").compare_and_downgrade_since(mark, mark + 1, 2)
json.dump(sorted(row["key"] for row in rows), sys.stdout)
"""

WRITER = """
import sys
from pathlib import Path
from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.maintenance import MaintenanceLimits
from odfabric_persist.rows import DIFF, TIME, RowCodec
from odfabric_persist.tiers import FanOut
import pyarrow as pa

folder = Path(sys.argv[1])
# Claims of the dead are not waited for.
limits = MaintenanceLimits(rollup_every=6, claim_ms=0, fan_out=FanOut(fresh=3, above=2))
settings = PersistSettings(limits=BatchLimits(inline_bytes_max=0), maintenance=limits)
client = PersistClient(FolderBlob(folder / "blobs"), SqliteConsensus(folder / "versions.db"), settings)
codec = RowCodec(pa.schema([pa.field("key", pa.string())]), ("key",))
shard = client.open("s", codec)
writer = shard.open_writer("w")
while True:
    upper = writer.recent_upper()
    rows = pa.table({"key": [f"k{upper}"], TIME: [upper], DIFF: [1]}, codec.update_schema)
    writer.compare_and_append(rows, upper, upper + 1)
    print(upper, flush=True)
    shard.maintain()
"""


def acknowledged_before_death(folder: Path, count: int) -> int:
    """Let a process write, kill it after so many commits were acknowledged.

    The last of them.
    """
    command = [sys.executable, "-P", "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(count)]
        process.kill()
        # What was acknowledged between the look and the kill counts too.
        lines += process.stdout.read().splitlines()
    return int(lines[-1])


def test_a_killed_writer_leaves_a_sound_shard_with_all_that_was_acknowledged(shard: Shard, tmp_path: Path) -> None:
    for count in (5, 13, 8):
        last = acknowledged_before_death(tmp_path, count)
        state = shard.newest()
        assert verify(shard.machine).problems == []
        assert state.upper is not None
        assert state.upper - last in (1, 2)
        rows = shard.snapshot(state.upper - 1)
        assert sorted(rows.column("key").to_pylist()) == sorted(f"k{number}" for number in range(state.upper))
        assert set(rows.column(DIFF).to_pylist()) == {1}


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with closing(SqliteConsensus(tmp_path / "versions.db")) as consensus:
        settings = PersistSettings(limits=BatchLimits(inline_bytes_max=0))
        yield PersistClient(FolderBlob(tmp_path / "blobs"), consensus, settings).open("s", CODEC)


def test_another_process_fetches_portions_and_takes_the_hold_over(shard: Shard, tmp_path: Path) -> None:
    writer = shard.open_writer()
    for number in range(4):
        writer.compare_and_append(updates_of([[f"k{number}", number, 1]]), number, number + 1)
    hold = shard.open_critical("only")
    assert hold.compare_and_downgrade_since(0, 1, 1) == 1
    portions = "\n".join(split.to_json() for split in shard.snapshot_splits(3, 3))
    other = subprocess.run(
        [sys.executable, "-P", "-c", OTHER_PROCESS, str(tmp_path)],
        input=portions,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout) == ["k0", "k1", "k2", "k3"]
    with pytest.raises(OpaqueMismatch) as caught:
        hold.compare_and_downgrade_since(1, 5, 3)
    assert (caught.value.actual, caught.value.since, shard.newest().since) == (2, 2, 2)

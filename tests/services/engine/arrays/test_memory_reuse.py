"""Freed memory stays with a working engine and returns when it rests."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy as np, pyarrow as pa
from odfabric_engine_spark.arrays.memory_reuse import give_back_freed_memory, reuse_freed_memory

def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmRSS"))

reuse_freed_memory()
begun = resident_mib()
for _ in range(3):
    numbers = np.ones(25 << 20, dtype=np.int64)
    arrow = pa.array(numbers).take(pa.array(np.arange(0, 25 << 20)))
    del numbers, arrow
worked = resident_mib()
give_back_freed_memory()
print(begun, worked, resident_mib(), pa.default_memory_pool().backend_name)
"""
"""Arrays of 200 MiB are made and freed."""


def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
    begun, worked, rested = map(int, told[:3])
    assert told[3] == "system"
    assert worked > begun + 400
    assert rested < begun + 100

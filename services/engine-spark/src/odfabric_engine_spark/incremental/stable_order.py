"""The order of many numbers, by all cores.

Owns sorting positions. Invariant: equal numbers keep their order, whatever the parts in which they are sorted, so what follows
does not depend on how many cores there are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.incremental.exact import Longs

_ALONE_MAX = 1 << 17
"""Numbers up to which parts would take longer to make than they save."""
_SAMPLES = 1_024


def stable_order(keys: npt.NDArray[Any]) -> Longs:
    """Positions in the order in which `keys`, integers of any width, ascend; equal ones in the order in which they stand."""
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    cores = pa.cpu_count()
    if len(keys) <= _ALONE_MAX or cores < 2:
        return np.argsort(keys, kind="stable")
    sample = np.sort(keys[:: -(-len(keys) // _SAMPLES)])
    bounds = np.unique(sample[[len(sample) * part // cores for part in range(1, cores)]])

    def part(number: int) -> Longs:
        """The order of the keys between two bounds, the lower one among them."""
        chosen = np.ones(len(keys), dtype=bool)
        if number:
            chosen &= keys >= bounds[number - 1]
        if number < len(bounds):
            chosen &= keys < bounds[number]
        places = np.nonzero(chosen)[0]
        found: Longs = places[np.argsort(keys[places], kind="stable")]
        return found

    with ThreadPoolExecutor(cores) as threads:
        return np.concatenate(list(threads.map(part, range(len(bounds) + 1))))

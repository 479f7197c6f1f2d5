"""Types of number arrays, and the least and greatest instant."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Longs: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NEVER = int(np.iinfo(np.int64).max)
"""An instant, in microseconds, that no watermark reaches."""

ALWAYS = int(np.iinfo(np.int64).min)
"""An instant, in microseconds, that every watermark has reached."""

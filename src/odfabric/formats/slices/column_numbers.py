"""Numbers of fixed-width columns as numpy arrays.

Without copies, and without pandas.

pyarrow's own ways (`to_numpy`, `pa.scalar`) import pandas where it is installed, which takes over a second of a process that only checks
rows. Invariant: the array is a view of the column's buffer; under a null it has whatever the writer left there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def numbers_of(array: pa.Array) -> npt.NDArray[np.signedinteger[Any]]:
    """The integers of a signed integer, date, time or timestamp column.

    Raises ValueError for a type whose values have no width of 4 or 8 bytes.
    """
    width = array.type.byte_width
    if width not in (4, 8):
        raise ValueError(f"{array.type} has no integers of 4 or 8 bytes")
    kind = np.dtype(np.int32 if width == 4 else np.int64)
    data = array.buffers()[1]
    if data is None:  # no rows, or nothing but nulls
        return np.zeros(len(array), kind)
    found: npt.NDArray[np.signedinteger[Any]] = np.frombuffer(data, kind, len(array), array.offset * width)
    return found

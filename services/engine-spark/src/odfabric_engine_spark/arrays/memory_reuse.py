"""Freed process memory: kept while calls run, returned when none does.

Owns what is asked of glibc's allocator. As it comes, an array of more than 32 MiB is mapped again each time, and the system clears its pages again: of
the time of a long first transaction that was a fifth. Arrow takes its memory from there too. Invariant: without calls the process keeps what it uses, no more. Elsewhere
than on glibc nothing is asked. Not here: the heap of Java.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Numbers of options of `mallopt`, as glibc has them."""
_MAPPED_BYTES = 1 << 30
"""Size from which an array is mapped by itself nevertheless, and is gone as soon as it is freed."""
_KEPT_BYTES = (1 << 31) - 1
"""The most that the allocator takes: free memory below it is not given back by itself."""


def reuse_freed_memory() -> None:
    """From now on, in this process."""
    libc = ctypes.CDLL(None)
    # An older glibc does not take the first; by the second alone it would keep less than it does by itself.
    if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") and libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES):
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        # Arrow's own pool gives pages back within milliseconds.
        pa.set_memory_pool(pa.system_memory_pool())


def give_back_freed_memory() -> None:
    """Once; takes some ten milliseconds for each gigabyte."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)

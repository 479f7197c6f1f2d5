"""Refusals of checkpoints, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from odfabric.errors import InvalidData, Place


def refused(name: str, rule: str, message: str) -> InvalidData:
    """The error for a file that users know as `name`."""
    hint = "run the transform with the engine that made it, or compute it anew: `odf set-transform --anew`"
    return InvalidData(message, place=Place(file=name, rule=rule), hint=hint)


@contextmanager
def damaged(name: str) -> Iterator[None]:
    """What goes wrong inside is a matter of the file. Raises InvalidData."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException, OSError) as error:
        raise refused(name, "checkpoint-damaged", f"the checkpoint is damaged: {error}") from error

"""Which pushes may be committed together, as if their bodies were one.

Owns the conditions: the joined body must mean the same rows as the bodies one after the other. Invariant: what is refused for a group may
still be taken push by push, and then names the push that is wrong; a group is a matter of speed alone. Source: ADR 0019.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable

from odfabric.model.metadata import AddPushSource
from odfabric.model.source import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStep,
    ReadStepNdJson,
)

_LINE_END = b"\n"


def may_be_joined(source: AddPushSource, read: ReadStep) -> bool:
    """Whether bodies of this source, read so, can be put one behind the other.

    Rows must be lines with declared columns, as those of NDJSON are (a quote that is left open in a CSV would swallow the next body),
    no query may see which rows came together, and merging must not tell them apart: Append takes all, and a Ledger batch
    with two rows of one key is either refused or as good as one of them.
    """
    if source.preprocess is not None or not isinstance(source.merge, MergeStrategyAppend | MergeStrategyLedger):
        return False
    match read:
        case ReadStepNdJson(encoding=None):
            return read.schema is not None or read.ddl_schema is not None
        case _:
            return False


def joined_bodies(bodies: Iterable[bytes]) -> bytes:
    """The bodies as one, each beginning on a line of its own.

    A byte order mark is one at the beginning only.
    """
    plain = (body.removeprefix(BOM_UTF8) for body in bodies)
    return b"".join(body if body.endswith(_LINE_END) or not body else body + _LINE_END for body in plain)

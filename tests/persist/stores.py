"""Stores by address, so that another process can open the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeAlias

from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.postgres_consensus import PostgresConsensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus

OpenBlob: TypeAlias = Callable[[str], Blob]
OpenConsensus: TypeAlias = Callable[[], Consensus]
Register: TypeAlias = SqliteConsensus | PostgresConsensus


def consensus_at(address: str) -> Register:
    """The register at `sqlite:PATH` or a `postgresql://` URL."""
    kind, _, rest = address.partition(":")
    if kind == "sqlite":
        return SqliteConsensus(Path(rest))
    return PostgresConsensus(address)


@contextmanager
def closing_consensus(address: str) -> Iterator[Callable[[], Register]]:
    """Opens handles of one register; all are closed in the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(consensus_at(address)))

"""Shards of indexes: their names, which of them counts, and giving one up.

Owns the way from a definition to its shard. A shard that was closed never comes back, so an index that is made again gets a new one:
of the generations of an epoch the first that is neither closed nor unreadable counts, and every process finds the same one. Not here:
what a shard holds (`state_index`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from odfabric.formats.arrow_schema import data_schema_to_arrow
from odfabric.model.identity import DatasetId
from odfabric.model.state_index import IndexDefinition
from odfabric_persist import state as transitions
from odfabric_persist.client import PersistClient, Shard
from odfabric_persist.collect import maintain
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.machine import Machine, Patience
from odfabric_persist.rows import RowCodec
from odfabric_persist.state import Batch, State

_log = logging.getLogger(__name__)

Resolve = Callable[[str], pa.Table]


def column_names(count: int) -> list[str]:
    """Names of columns in shards: those of datasets could be anything."""
    return [f"c{index}" for index in range(count)]


def codec_of(index: IndexDefinition) -> RowCodec:
    """Columns of the shard."""
    schema = data_schema_to_arrow(index.columns, encodings=False)
    names = column_names(len(schema))
    keys = tuple(name for name, field in zip(names, schema, strict=True) if field.name in index.keys)
    return RowCodec(pa.schema([pa.field(name, one.type) for name, one in zip(names, schema, strict=True)]), keys)


@dataclass(slots=True)
class IndexShards:
    """The shards of all indexes of a location, which is opened when it is first needed."""

    open_client: Callable[[], PersistClient]
    _generations: dict[tuple[DatasetId, str], int] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    @property
    def client(self) -> PersistClient:
        """The client of the location."""
        return self.open_client()

    def find(self, index: IndexDefinition, resolve: Resolve) -> Shard | None:
        """The shard of an index, None if it has none. Raises errors of the library."""
        name, exists = self._current(index, resolve)
        return self.client.open(name, codec_of(index), resolve=resolve) if exists else None

    def open(self, index: IndexDefinition, resolve: Resolve) -> Shard:
        """The shard of an index, made if it is new. Raises errors of the library."""
        name, _ = self._current(index, resolve)
        return self.client.open(name, codec_of(index), resolve=resolve)

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None) -> int:
        """Close all shards of a dataset but those of one epoch; how many."""
        kept = None if but is None else _name(but, 0).rpartition("-")[0]
        dropped = 0
        for name in self._names(dataset):
            if name.rpartition("-")[0] != kept:
                dropped += self._close(name)
        return dropped

    def _current(self, index: IndexDefinition, resolve: Resolve) -> tuple[str, bool]:
        """The name of the generation that counts, and whether it is there."""
        known = (index.dataset, index.epoch)
        generation = self._generations.get(known, 0)
        while True:
            name = _name(index, generation)
            self._generations[known] = generation
            if name not in self._seen:
                if self.client.consensus.head(name) is None:
                    return name, False
                self._seen.add(name)
            try:
                if not self.client.open(name, codec_of(index), resolve=resolve).newest().tombstone:
                    return name, True
            except Corrupt as error:
                _log.warning("the index in shard %s cannot be read and is passed over: %s", name, error)
            generation += 1

    def _names(self, dataset: DatasetId) -> Iterator[str]:
        listed = self.client.consensus.keys()
        return (name for name in listed if name.startswith(_prefix(dataset)))

    def _close(self, name: str) -> bool:
        """Whether it was open. One that cannot be read is left: the generation after it counts."""
        machine = self._machine_of(name)
        if machine is None or machine.newest().tombstone:
            return False
        machine.apply(lambda state: _closed(state, machine.now_ms()))
        machine.apply(lambda state: transitions.become_tombstone(state, now_ms=machine.now_ms()))
        maintain(machine)
        return True

    def _machine_of(self, name: str) -> Machine | None:
        """A machine for a shard of which only the name is known."""
        client = self.client
        patience = Patience(attempts_max=client.settings.attempts_max, wait=client.wait)
        machine = Machine(name, "", client.blob, client.consensus, now_ms=client.now_ms, patience=patience)
        try:
            machine.newest()
        except UsageError:
            machine.codec = machine.cached().codec
        except Corrupt as error:
            _log.warning("the index in shard %s cannot be read and is left: %s", name, error)
            return None
        return machine


def _closed(state: State, now_ms: int) -> State:
    """Nothing can be read or written any more; the last batch says so to those who follow it."""
    if transitions.is_closed(state):
        return state
    batches = state.batches
    if state.upper is not None:
        batches = (*batches, Batch(f"closing-{state.seqno}", state.upper, None, 0))
    return transitions.changed(state, now_ms, since=None, upper=None, batches=batches, readers={}, criticals={})


def _prefix(dataset: DatasetId) -> str:
    return f"index/{dataset.multibase}/"


def _name(index: IndexDefinition, generation: int) -> str:
    return f"{_prefix(index.dataset)}{index.epoch}-{generation}"

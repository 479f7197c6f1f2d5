"""Shards of indexes: their names, which of them counts, and giving one up.

Owns the way from a definition to its shard. A shard that was closed never comes back, so an index that is made again gets a new one:
of the generations of an epoch the first that is neither closed nor unreadable counts, and every process finds the same one. Not here:
what a shard holds (`state_index`).
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.identity import DatasetId
from odfabric.model.state_index import IndexDefinition
from odfabric_persist import state as transitions
from odfabric_persist.client import PersistClient, Shard
from odfabric_persist.collect import maintain
from odfabric_persist.errors import Corrupt, Determinate, UsageError
from odfabric_persist.machine import Machine, Patience
from odfabric_persist.rows import RowCodec
from odfabric_persist.state import Batch, State

_log = logging.getLogger(__name__)

Resolve = Callable[[str], pa.Table]

_COLUMN = re.compile(r"(?:^|,)(c[0-9a-f]{16}):")
"""A column in the name of a codec."""

_OPENINGS_MAX = 5


def column_name(name: str) -> str:
    """The name of a column in shards: those of datasets could be anything."""
    return f"c{hashlib.sha3_256(name.encode()).hexdigest()[:16]}"


def _fields(index: IndexDefinition) -> dict[str, pa.Field]:
    """The columns of an index by their names in shards."""
    schema = data_schema_to_arrow(index.columns, encodings=False)
    return {column_name(one.name): pa.field(column_name(one.name), one.type) for one in schema}


def _codec(index: IndexDefinition, fields: Sequence[pa.Field]) -> RowCodec:
    return RowCodec(pa.schema(fields), tuple(map(column_name, index.keys)))


@dataclass(slots=True)
class IndexShards:
    """The shards of all indexes of a location, which is opened on first use."""

    open_client: Callable[[], PersistClient]
    _generations: dict[tuple[DatasetId, str], int] = field(default_factory=dict)
    _codecs: dict[str, RowCodec] = field(default_factory=dict)

    @property
    def client(self) -> PersistClient:
        """The client of the location."""
        return self.open_client()

    def find(self, index: IndexDefinition, resolve: Resolve) -> Shard | None:
        """The shard of an index, None if it has none. Raises errors of the library."""
        return self._current(index, resolve, make=False)

    def open(self, index: IndexDefinition, resolve: Resolve) -> Shard:
        """The shard of an index, made if it is new. Raises errors of the library."""
        found = self._current(index, resolve, make=True)
        assert found is not None
        return found

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None) -> int:
        """Close all shards of a dataset but those of one epoch; how many."""
        kept = None if but is None else _name(but, 0).rpartition("-")[0]
        dropped = 0
        for name in self._names(dataset):
            if name.rpartition("-")[0] != kept:
                dropped += self._close(name)
        return dropped

    def _current(self, index: IndexDefinition, resolve: Resolve, *, make: bool) -> Shard | None:
        """The generation that counts."""
        known = (index.dataset, index.epoch)
        generation = self._generations.get(known, 0)
        while True:
            name = _name(index, generation)
            self._generations[known] = generation
            if name not in self._codecs and self.client.consensus.head(name) is None:
                if not make:
                    return None
                self._codecs[name] = _codec(index, list(_fields(index).values()))
            try:
                shard = self._opened(name, index, resolve)
                if shard is not None and not shard.newest().tombstone:
                    return shard
            except Corrupt as error:
                _log.warning("the index in shard %s cannot be read and is passed over: %s", name, error)
            generation += 1

    def _opened(self, name: str, index: IndexDefinition, resolve: Resolve) -> Shard | None:
        """The shard with all columns of the index, None if its columns are of other types."""
        for _ in range(_OPENINGS_MAX):
            codec = self._codecs.get(name)
            if codec is None or set(codec.schema.names) != _fields(index).keys():
                codec = self._evolved(name, index)
                if codec is None:
                    return None
                self._codecs[name] = codec
            try:
                shard = self.client.open(name, codec, resolve=resolve)
                shard.newest()
                return shard
            except UsageError:
                # Made or evolved by another process since we looked.
                self._codecs.pop(name, None)
        raise Determinate(f"the columns of shard {name} change too fast")

    def _evolved(self, name: str, index: IndexDefinition) -> RowCodec | None:
        """The codec of an existing shard, after it was given the columns that it lacks.

        None if its columns are of other types. Raises Determinate if it has columns of which the definition knows nothing: that one is old.
        """
        machine = self._machine_of(name)
        if machine is None:
            return None
        fields, stored = _fields(index), machine.newest().codec
        names = _COLUMN.findall(stored)
        if not fields.keys() >= set(names):
            raise Determinate("the index has further columns already")
        if not set(map(column_name, index.keys)) <= set(names):
            return None
        expected = _codec(index, [fields[one] for one in names])
        if expected.name != stored:
            return None
        added = [one for one_name, one in fields.items() if one_name not in names]
        if not added:
            return expected
        evolved = _codec(index, [*expected.schema, *added])
        self.client.compare_and_evolve_schema(name, expected, evolved)
        return evolved

    def _names(self, dataset: DatasetId) -> Iterator[str]:
        listed = self.client.consensus.keys()
        return (name for name in listed if name.startswith(_prefix(dataset)))

    def _close(self, name: str) -> bool:
        """Whether it was open.

        One that cannot be read is left: the generation after it counts.
        """
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
    """Nothing can be read or written any more.

    The last batch says so to those who follow it.
    """
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

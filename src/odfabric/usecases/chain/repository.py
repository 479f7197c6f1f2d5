"""The node's own repository, reading side.

Datasets by reference, blocks, chain states, objects made local.

Invariant: every byte that leaves here for an engine, a peer or a person was hashed again on the way (a checkpoint: once by a
process, as long as its file stays the same), and damage to what this node wrote is `Corrupt`, named. Not here: anything that writes (see `usecases.chain.commit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from odfabric.domain.chain.bounds import check_numbers
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import read_state
from odfabric.errors import ChainsDiverged, Corrupt, InvalidBlock, InvalidData, NotFound
from odfabric.formats.blocks.block import block_hash, decode_block
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, block_key, object_key
from odfabric.formats.identifiers.physical_hash import KnownFiles, physical_hash
from odfabric.formats.identifiers.references import parse_name
from odfabric.formats.parquet.column_bounds import TimeBounds, missing_bytes, time_bounds
from odfabric.formats.parquet.parquet_footer import NOT_PARQUET
from odfabric.model.commit import BlockRow, CatalogEntry, EncodedBlock, Head
from odfabric.model.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_reader import ChainReader
from odfabric.ports.datasets.object_store import ObjectStore

CHECKPOINTS_KNOWN_MAX = 4096
"""Files of checkpoints that a process remembers to have hashed."""
SLICES_KNOWN_MAX = 16_384
"""Files of slices that a process remembers to have hashed."""
SLICE_TIMES_KNOWN_MAX = 65_536
"""Slices of which a process remembers the first and the last time."""
SLICE_END_BYTES = 64 * 1024
"""Bytes at the end of a slice that are fetched for its footer: it is longer in slices of many row groups or columns."""
FOOTER_BYTES_MAX = 8 << 20
"""Of a slice with a longer footer no times are known."""
BLOCKS_KNOWN_MAX = 16_384
"""Blocks that a process remembers decoded."""
KNOWN_BLOCK_BYTES_MAX = 4096
"""Larger blocks are seldom, and read each time."""
_REPAIRS = {CHECKPOINTS: "`odf system replay` of that dataset makes its checkpoints again"}
"""What to do where an object of a folder is lost."""


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """Blocks of one dataset by hash, decoded; a `BlockSource` of the domain."""

    dataset: DatasetId
    objects: ObjectStore
    block_bytes_max: int

    def get_bytes(self, block: Multihash) -> bytes:
        """The stored bytes, checked against the hash. Raises NotFound, Corrupt."""
        data = self.objects.read_bytes(block_key(self.dataset, block), size_max=self.block_bytes_max)
        if block_hash(data) != block:
            raise Corrupt(f"block {block} of {self.dataset} does not hash to its name", object_name=str(block))
        return data

    def get(self, block: Multihash) -> MetadataBlock:
        """The decoded block, with numbers that can be calculated with.

        Raises NotFound, Corrupt.
        """
        return self.get_encoded(block).block

    def get_encoded(self, block: Multihash) -> EncodedBlock:
        """The block as it is stored and decoded. Raises as `get`."""
        data = self.get_bytes(block)
        try:
            found = decode_block(data)
            # A chain that came before this was a rule may still have others.
            check_numbers(found.event)
        except InvalidBlock as error:
            rule = f"rule {error.place.rule}: " if error.place.rule else ""
            raise Corrupt(
                f"block {block} of {self.dataset} is unreadable: {rule}{error.message}", object_name=str(block)
            ) from error
        return EncodedBlock(block, data, found)


@dataclass(frozen=True, slots=True)
class RecalledBlocks(StoredBlocks):
    """The same, of which a process decodes each once as long as it remembers it.

    A block that is damaged or gone meanwhile may still be given as it was.
    """

    known: Remembered[Multihash, MetadataBlock]

    def get(self, block: Multihash) -> MetadataBlock:
        """See `StoredBlocks`."""
        found = self.known.get(block)
        if found is None:
            encoded = self.get_encoded(block)
            found = encoded.block
            if len(encoded.data) <= KNOWN_BLOCK_BYTES_MAX:
                self.known.put(block, found)
        return found


class Repository:
    """Datasets of this node, for reading."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        chains: ChainReader,
        objects: ObjectStore,
        account: Name,
        block_bytes_max: int,
        states_cached_max: int,
    ) -> None:
        self.catalog = catalog
        self.chains = chains
        self.objects = objects
        self.account = account
        self._block_bytes_max = block_bytes_max
        self._states = Remembered[DatasetId, ChainState](states_cached_max)
        self._checkpoints = KnownFiles(CHECKPOINTS_KNOWN_MAX)
        self._slices = KnownFiles(SLICES_KNOWN_MAX)
        self._blocks = Remembered[Multihash, MetadataBlock](BLOCKS_KNOWN_MAX)
        self._recalls = False
        self._slice_times = Remembered[tuple[Multihash, str], tuple[TimeBounds | None]](SLICE_TIMES_KNOWN_MAX)

    def seen_through(self, catalog: Catalog, account: Name) -> Repository:
        """The same repository as somebody sees it.

        Only the datasets of `catalog` exist, and names without an account are of `account`.

        What the two remember of chains is shared.
        """
        seen = copy(self)
        seen.catalog, seen.account = catalog, account
        return seen

    def recalling(self) -> Repository:
        """The same repository, which remembers the blocks that it decodes.

        Not for verification, which reads what is there now.
        """
        found = copy(self)
        found._recalls = True
        return found

    def resolve(self, ref: DatasetRef) -> CatalogEntry:
        """The dataset that a reference means.

        An alias without account is one of the node's own. Raises NotFound.
        """
        entry = self.find(ref)
        if entry is None:
            raise NotFound("dataset", str(ref))
        return entry

    def find(self, ref: DatasetRef) -> CatalogEntry | None:
        """Like `resolve`, None if there is none."""
        match ref:
            case DatasetId():
                return self.catalog.by_id(ref)
            case DatasetAlias(account=account, name=name):
                return self.catalog.by_alias(DatasetAlias(account or self.account, name))

    def local_alias(self, account: str | None, name: str) -> DatasetAlias:
        """The alias of a dataset of this node, in the node's own account if none is given.

        Raises InvalidName.
        """
        owner = parse_name(account, type_name="AccountName") if account else self.account
        return DatasetAlias(owner, parse_name(name))

    def head(self, dataset: DatasetId) -> Head:
        """The head of record. Raises NotFound."""
        head = self.chains.head(dataset)
        if head is None:
            raise NotFound("dataset", str(dataset))
        return head

    def blocks(self, dataset: DatasetId) -> StoredBlocks:
        """Blocks of a dataset by hash."""
        if self._recalls:
            return RecalledBlocks(dataset, self.objects, self._block_bytes_max, self._blocks)
        return StoredBlocks(dataset, self.objects, self._block_bytes_max)

    def rows_down(self, dataset: DatasetId, event_types: frozenset[str] | None = None) -> Iterator[BlockRow]:
        """Index rows of the chain, newest first."""
        return self.chains.rows_down(dataset, event_types=event_types)

    def state(self, dataset: DatasetId, head: Multihash) -> ChainState:
        """What the chain says at `head`, one of its blocks.

        States met before are built upon. Raises NotFound, Corrupt.
        """
        known = self._states.get(dataset)
        if known is not None and known.head == head:
            return known
        state = self._read_state(dataset, head, base=known)
        # One state a dataset is enough: work happens at the head, and older heads are read by verification alone.
        if known is None or (known.sequence_number or 0) < (state.sequence_number or 0):
            self._states.put(dataset, state)
        return state

    def current(self, dataset: DatasetId) -> tuple[Head, ChainState]:
        """Head and state together. Raises NotFound, Corrupt."""
        head = self.head(dataset)
        return head, self.state(dataset, head.hash)

    def materialize(self, dataset: DatasetId, folder: str, name: Multihash, path: Path) -> int:
        """Make an object of `data` or `checkpoints` a local file, hashed on the way.

        Returns its size in bytes.

        Raises Corrupt if it is missing or does not hash to its name: the chain says that this node has it.
        """
        self._fetch(dataset, folder, name, path)
        return self._checked(dataset, folder, name, path)

    def materialize_checkpoint(self, dataset: DatasetId, name: Multihash, path: Path) -> None:
        """As `materialize`, but unchanged files that this process hashed are trusted.

        Checkpoints build on large ones that do not change: a transaction must not read them from end to end.
        """
        self._materialize_known(dataset, CHECKPOINTS, name, path, self._checkpoints)

    def materialize_slice(self, dataset: DatasetId, name: Multihash, path: Path) -> None:
        """As `materialize_checkpoint`, of a slice that is read in small part.

        A question about one record must not hash the whole history.
        """
        self._materialize_known(dataset, DATA, name, path, self._slices)

    def slice_times(self, dataset: DatasetId, name: Multihash, column: str) -> TimeBounds | None:
        """Bounds of a column of times by the statistics of a slice.

        None if they are not known.

        The end of the slice is fetched once by a process; it is not hashed, as a part has no name. Raises Corrupt.
        """
        known = self._slice_times.get((name, column))
        if known is None:
            try:
                known = (self._times(dataset, name, column),)
            except InvalidData as error:
                message = f"{DATA} object {name} of {dataset} cannot be read: {error.message}"
                raise Corrupt(message, object_name=str(name)) from error
            self._slice_times.put((name, column), known)
        return known[0]

    def _times(self, dataset: DatasetId, name: Multihash, column: str) -> TimeBounds | None:
        key = object_key(dataset, DATA, name)
        try:
            end = self.objects.read_end(key, bytes_max=SLICE_END_BYTES)
            missing = missing_bytes(end)
            if missing + len(end) > FOOTER_BYTES_MAX:
                return None
            if missing:
                end = self.objects.read_end(key, bytes_max=missing + len(end))
        except NotFound as error:
            raise _missing(dataset, DATA, name) from error
        if missing_bytes(end):
            raise InvalidData(NOT_PARQUET)
        return time_bounds(BytesIO(end), column)

    def _materialize_known(
        self, dataset: DatasetId, folder: str, name: Multihash, path: Path, known: KnownFiles
    ) -> None:
        self._fetch(dataset, folder, name, path)
        if not known.has(name, path):
            self._checked(dataset, folder, name, path)
            known.add(name, path)

    def checkpoint_stored(self, name: Multihash, path: Path) -> None:
        """Says that the file has been hashed just now; its object may be a link to it."""
        self._checkpoints.add(name, path)

    def _fetch(self, dataset: DatasetId, folder: str, name: Multihash, path: Path) -> None:
        try:
            self.objects.materialize(object_key(dataset, folder, name), path)
        except NotFound as error:
            raise _missing(dataset, folder, name) from error

    def _checked(self, dataset: DatasetId, folder: str, name: Multihash, path: Path) -> int:
        found, size = physical_hash(path)
        if found != name:
            path.unlink()
            message = f"{folder} object {name} of {dataset} does not hash to its name"
            raise Corrupt(message, object_name=str(name), hint=_REPAIRS.get(folder))
        return size

    def _read_state(self, dataset: DatasetId, head: Multihash, *, base: ChainState | None) -> ChainState:
        if base is not None:
            try:
                return read_state(self.blocks(dataset), head, base=base)
            except ChainsDiverged:
                pass  # an older head, or the chain was replaced: read it from the seed
        return read_state(self.blocks(dataset), head)


def _missing(dataset: DatasetId, folder: str, name: Multihash) -> Corrupt:
    return Corrupt(f"{folder} object {name} of {dataset} is missing", object_name=str(name), hint=_REPAIRS.get(folder))

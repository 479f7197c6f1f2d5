"""Fetch blocks and objects that are missing or damaged here from copies.

Invariant: nothing of a place is believed. What comes is compared with its hash and with every word of the block that names it, as in a pull,
before it is stored; a place that gives something else is left for the next one, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.people.access import Subject
from odfabric.domain.transfer.direction import scheme_of
from odfabric.errors import Corrupt, NotFound, OdfError
from odfabric.formats.blocks.block import decode_block
from odfabric.formats.identifiers.dataset_layout import BLOCKS, block_key
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.engine import EngineProgress
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.repository import AliasKind
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import put_back
from odfabric.usecases.transfer.arriving_chain import ReceivedBlocks
from odfabric.usecases.transfer.receive_objects import ObjectReceiver, declared_objects, missing_objects
from odfabric.usecases.transfer.remote_names import RemoteNames

PLACES_MAX = 20
"""Places that are asked for one dataset."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Something that came: its name, its folder, and where it came from."""

    name: Multihash
    folder: str
    place: str

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {"object": str(self.name), "folder": self.folder, "from": self.place}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPorts:
    """What fetching needs; `repository` reads what is stored, without nearby copies."""

    repository: Repository
    remotes: RemoteDatasets
    names: RemoteNames
    exchange: Exchange
    blocks_max: int
    object_bytes_max: int
    at_once: int
    checks_at_once: int


@dataclass(slots=True, kw_only=True)
class Fetching:
    """One run: what came, and what a place gave instead."""

    entry: CatalogEntry
    subject: Subject
    ports: FetchPorts
    report: Callable[[EngineProgress], None]
    fetched: list[Fetched] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _places: list[tuple[str, RemoteDataset]] | None = None

    def fetch(self, head: Multihash, damaged: frozenset[Multihash]) -> None:
        """Fetch what the chain that ends at `head` lacks.

        `damaged` are objects that a verification has refused."""
        blocks = self._chain(head)
        state = ChainState.empty()
        for number, encoded in enumerate(blocks):
            self.report(EngineProgress(stage="fetch", done=number, total=len(blocks)))
            named = {declared.physical_hash for _, declared in declared_objects(encoded)}
            lacks = missing_objects(self.entry.id, [encoded], objects=self.ports.repository.objects)
            if lacks or named & damaged:
                self._fetch_objects(state, encoded)
            state = apply(state, encoded.hash, encoded.block)

    def _chain(self, head: Multihash) -> list[EncodedBlock]:
        """Blocks from the oldest on; none if one is nowhere."""
        stored = self.ports.repository.blocks(self.entry.id)
        found: list[EncodedBlock] = []
        name: Multihash | None = head
        while name is not None and len(found) < self.ports.blocks_max:
            try:
                data = stored.get_bytes(name)
            except (NotFound, Corrupt):
                fetched = self._fetch_block(name)
                if fetched is None:
                    return []
                data = fetched
            block = decode_block(data)
            found.append(EncodedBlock(name, data, block))
            name = block.prev_block_hash
        return found[::-1]

    def _fetch_block(self, name: Multihash) -> bytes | None:
        objects, key = self.ports.repository.objects, block_key(self.entry.id, name)
        for place, remote in self._opened():
            with self.ports.exchange.session() as folder:
                try:
                    data = ReceivedBlocks(remote, folder).get_bytes(name)
                    decode_block(data)
                except OdfError as error:
                    self._refuse(place, BLOCKS, name, error)
                    continue
                path = folder / "block"
                path.write_bytes(data)
                put_back(key, path, size=len(data), objects=objects)
            self.fetched.append(Fetched(name, BLOCKS, place))
            return data
        return None

    def _fetch_objects(self, before: ChainState, encoded: EncodedBlock) -> None:
        """Objects of one block, from the first place that gives them as the block says."""
        for place, remote in self._opened():
            heard = _Heard(remote)
            with self.ports.exchange.session() as folder:
                receiver = ObjectReceiver(
                    dataset=self.entry.id,
                    source=heard,
                    folder=folder,
                    objects=self.ports.repository.objects,
                    object_bytes_max=self.ports.object_bytes_max,
                    at_once=self.ports.at_once,
                    checks_at_once=self.ports.checks_at_once,
                )
                try:
                    receiver.receive(before, [encoded], report=lambda _: None)
                except OdfError as error:
                    self._refuse(place, f"block {encoded.block.sequence_number}", encoded.hash, error)
                    continue
            self.fetched += [Fetched(name, area, place) for area, name in heard.given]
            return

    def _refuse(self, place: str, what: str, name: Multihash, error: OdfError) -> None:
        self.refused.append(f"{place} does not have {what} {name} as it should be: {error.message}")

    def _opened(self) -> Sequence[tuple[str, RemoteDataset]]:
        """The places where copies may be, each opened once."""
        if self._places is None:
            self._places = []
            for url in dict.fromkeys(self._urls()):
                if len(self._places) == PLACES_MAX:
                    break
                try:
                    self._places.append((url, self.ports.remotes.open(url)))
                except OdfError as error:
                    self.refused.append(f"{url} cannot be asked: {error.message}")
        return self._places

    def _urls(self) -> Iterator[str]:
        """Where it was pulled from and pushed to, and its place in known repositories."""
        entry, names = self.entry, self.ports.names
        if entry.remote_url is not None:
            yield entry.remote_url
        aliases = [
            each.target
            for kind in (AliasKind.PULL, AliasKind.PUSH)
            for each in names.repositories.aliases(entry.id, kind)
        ]
        for target in [*aliases, *(each.name.text for each in names.known(self.subject))]:
            try:
                url = names.push_target(entry, target, self.subject).url
                scheme_of(url)
            except OdfError as error:
                self.refused.append(f"{target} cannot be asked: {error.message}")
                continue
            yield url


@dataclass(slots=True)
class _Heard:
    """A source that notes what it gave."""

    remote: RemoteDataset
    given: list[tuple[str, Multihash]] = field(default_factory=list)

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """See `ObjectSource`."""
        size = self.remote.download(folder, object_hash, size_max=size_max, into=into)
        self.given.append((folder, object_hash))
        return size

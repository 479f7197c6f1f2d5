"""Datasets pushed to folders and buckets.

Owns the order of writes over a store of objects: data and checkpoints, blocks, the alias of a new dataset, at last `refs/head`, by
compare-and-set where the store has it. Invariant: what is made has exactly the layout that other nodes read. Source: specification, section
"Dataset layout".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from odfabric.adapters.stored_datasets.remote import stored_ref
from odfabric.domain.transfer.direction import SMART_SCHEMES, scheme_of
from odfabric.errors import Corrupt, CorruptedSource, InvalidName, LimitExceeded, Place, UnsupportedProtocol
from odfabric.formats.identifiers.dataset_layout import (
    ALIAS,
    BLOCKS,
    HEAD,
    HEAD_LOG,
    HEAD_SIGNATURE,
    object_path,
    parse_ref,
)
from odfabric.model.commit import EncodedBlock
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.transfer.destinations import Destination, RemoteStores

T = TypeVar("T")
R = TypeVar("R")

LOOKED_UP_MAX = 20
"""Objects that are asked for one by one; of more, the folder is listed first."""


class StoredDestinations:
    """`ports.transfer.destinations.Destinations` over stores by scheme.

    Blocks are at most `block_bytes_max`, `at_once` are written at a time.
    """

    def __init__(self, by_scheme: Mapping[str, RemoteStores], *, block_bytes_max: int, at_once: int) -> None:
        self._by_scheme = by_scheme
        self._block_bytes_max = block_bytes_max
        self._at_once = at_once

    def open(self, url: str, *, token: str | None = None) -> Destination:
        """See the port; a token has nothing to say to a store."""
        scheme = scheme_of(url)
        stores = self._by_scheme.get(scheme)
        if stores is None:
            smart = scheme in SMART_SCHEMES
            served = ", ".join(f"{each}://" for each in sorted(self._by_scheme))
            raise UnsupportedProtocol(
                f"datasets cannot be pushed to {scheme}:// by the Simple protocol",
                place=Place(field="url"),
                hint=f"use one of {served}"
                if smart
                else f"a node takes them by odf+{scheme}://; else use one of {served}",
            )
        store = stores.open(url, writes=True)
        return StoredDestination(store, url, block_bytes_max=self._block_bytes_max, at_once=self._at_once)


class StoredDestination:
    """One dataset whose root is that of a store."""

    def __init__(self, store: ObjectStore, shown: str, *, block_bytes_max: int, at_once: int) -> None:
        self._store = store
        self._shown = shown
        self._block_bytes_max = block_bytes_max
        self._at_once = at_once

    def head(self) -> Multihash | None:
        """See the port."""
        text = self._text()
        return None if text is None else self._parsed(text)

    def block(self, block_hash: Multihash) -> bytes:
        """See the port."""
        return self._store.read_bytes(object_path(BLOCKS, block_hash), size_max=self._block_bytes_max)

    def ref(self, path: str) -> bytes | None:
        """See the port."""
        return stored_ref(self._store, path)

    def sizes(self, folder: str, names: Sequence[Multihash]) -> Mapping[Multihash, int]:
        """See the port."""
        if len(names) > LOOKED_UP_MAX:
            there = set(self._store.keys(f"{folder}/"))
            names = [name for name in names if object_path(folder, name) in there]
        found = self._each(names, lambda name: self._store.stat(object_path(folder, name)))
        return {name: stat.size for name, stat in zip(names, found, strict=True) if stat is not None}

    def put(self, folder: str, name: Multihash, path: Path, *, replaces: bool = False) -> None:
        """See the port."""
        key = object_path(folder, name)
        if replaces:
            self._store.delete(key)
        self._store.put_file(key, path)

    def publish(
        self,
        blocks: Sequence[EncodedBlock],
        *,
        head: Multihash,
        expected: Multihash | None,
        alias: str,
        force: bool,
        log: Mapping[str, bytes] | None = None,
    ) -> bool:
        """See the port."""
        before = self._text()
        if (None if before is None else self._parsed(before)) != expected:
            return before is not None and self._parsed(before) == head
        self._each(blocks, lambda block: self._store.put_bytes(object_path(BLOCKS, block.hash), block.data))
        if before is None and self._store.read_ref(ALIAS) is None:
            self._store.write_ref(ALIAS, alias)
        for path, data in (log or {}).items():
            self._put_log(path, data)
        return before == str(head) or self._store.replace_ref(HEAD, str(head), expected=before)

    def _put_log(self, path: str, data: bytes) -> None:
        """Full segments are written once, unless what is there is another log."""
        if path in (HEAD_LOG, HEAD_SIGNATURE):
            self._store.write_ref(path, data.decode("ascii"))
        elif stored_ref(self._store, path) != data:
            self._store.delete(path)
            self._store.put_bytes(path, data)

    def _text(self) -> str | None:
        try:
            return self._store.read_ref(HEAD)
        except (LimitExceeded, Corrupt):
            return ""  # it is no hash, whatever else it is

    def _each(self, items: Sequence[T], act: Callable[[T], R]) -> list[R]:
        if self._at_once <= 1 or len(items) <= 1:
            return [act(item) for item in items]
        with ThreadPoolExecutor(min(self._at_once, len(items)), thread_name_prefix="push") as threads:
            return list(threads.map(act, items))

    def _parsed(self, text: str) -> Multihash:
        try:
            return parse_ref(text)
        except InvalidName:
            raise CorruptedSource(f"{HEAD} of {self._shown} is not the hash of a block") from None

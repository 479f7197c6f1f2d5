"""Datasets in buckets elsewhere, read as remotes.

Nothing that comes back is trusted: hashes are checked by the one who asked. A download that breaks off goes on where it broke, as far as the
store's streams do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from odfabric.errors import Corrupt, CorruptedSource, Determinate, InvalidName, LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import BLOCKS, HEAD, object_path, parse_ref
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import REF_BYTES_MAX, ObjectStore
from odfabric.ports.sources.egress import RemoteDataset
from odfabric.ports.transfer.destinations import RemoteStores

COPY_BYTES = 1024 * 1024


class StoredRemoteDatasets:
    """`ports.sources.egress.RemoteDatasets` over stores."""

    def __init__(self, stores: RemoteStores, *, block_bytes_max: int) -> None:
        self._stores = stores
        self._block_bytes_max = block_bytes_max

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """See the port; a token has nothing to say to a store."""
        return StoredRemoteDataset(self._stores.open(url, writes=False), url, block_bytes_max=self._block_bytes_max)


class StoredRemoteDataset:
    """One dataset whose root is that of a store."""

    def __init__(self, store: ObjectStore, shown: str, *, block_bytes_max: int) -> None:
        self._store = store
        self._shown = shown
        self._block_bytes_max = block_bytes_max

    def head(self) -> Multihash:
        """Its head."""
        try:
            text = self._store.read_ref(HEAD)
        except (LimitExceeded, Corrupt):
            text = ""  # it is no hash, whatever else it is
        if text is None:
            raise NotFound(
                "dataset", self._shown, hint=f"there is no {HEAD}: check the place, `odf search REPOSITORY` lists it"
            )
        try:
            return parse_ref(text)
        except InvalidName:
            raise CorruptedSource(f"{HEAD} of {self._shown} is not the hash of a block") from None

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes of a block."""
        try:
            return self._store.read_bytes(object_path(BLOCKS, block_hash), size_max=self._block_bytes_max)
        except NotFound:
            raise NotFound("block", str(block_hash)) from None
        except LimitExceeded:
            raise _too_large(block_hash, "block_bytes_max", self._block_bytes_max) from None

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """The block alone: the next is asked for as soon as its name is known."""
        return [self.block(block_hash)]

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head."""
        return stored_ref(self._store, path)

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """An object into a new file."""
        size = 0
        try:
            with self._store.open(object_path(folder, object_hash)) as stream, into.open("xb") as copy:
                while piece := stream.read(COPY_BYTES):
                    size += copy.write(piece)
                    if size > size_max:
                        raise _too_large(object_hash, "object_bytes_max", size_max)
        except NotFound:
            raise NotFound("object", str(object_hash)) from None
        except OSError as error:
            self._forget(into)
            raise Determinate(f"{into.name} cannot be written: {error.strerror}") from None
        except BaseException:
            self._forget(into)
            raise
        return size

    @staticmethod
    def _forget(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def stored_ref(store: ObjectStore, path: str) -> bytes | None:
    """A small file of a store, which may be a ref or an object."""
    try:
        return store.read_bytes(path, size_max=REF_BYTES_MAX)
    except NotFound:
        return None


def _too_large(name: Multihash, limit: str, maximum: int) -> LimitExceeded:
    return LimitExceeded(f"{name} is too large", limit=limit, maximum=maximum)

"""Places that datasets are pushed to: folders, buckets, nodes.

Invariant for all of them: a reader sees the dataset as it was before or as it is after, at any moment: what a chain names is there before its
head. Nothing that is there is written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from odfabric.model.commit import EncodedBlock
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore


class Destination(Protocol):
    """One dataset elsewhere that may be written. What is read of it is not trusted.

    Every method raises Unauthenticated, AccessDenied, InvalidRequest, Determinate or Indeterminate for what the place refuses or fails at.
    Threads may call `put` at once.
    """

    def head(self) -> Multihash | None:
        """Its head, None for a dataset that is not there.

        Raises CorruptedSource for what is no hash.
        """

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes kept there for a block. Raises NotFound, LimitExceeded."""

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head, such as `refs/head.log`; None if it is not there."""

    def sizes(self, folder: str, names: Sequence[Multihash]) -> Mapping[Multihash, int]:
        """Sizes in bytes of those objects of `data` or `checkpoints` that are there."""

    def put(self, folder: str, name: Multihash, path: Path, *, replaces: bool = False) -> None:
        """Store an object from a file that hashes to its name.

        With `replaces` what is there is damaged and goes.
        """

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
        """Store the blocks, then move the head from `expected` to `head`, once.

        Blocks are stored oldest first. `expected` None: there is no head yet.

        All objects that the blocks name are there. `alias` is what the dataset is called, `account/name`. With `force` the new head does not
        continue the old one. `log` are files of the head log by their path, written in their order between the blocks and the head. False if somebody else has moved the head: nothing that readers see was changed.
        """


class Destinations(Protocol):
    """Opens destinations by URL."""

    def open(self, url: str, *, token: str | None = None) -> Destination:
        """Open the destination under a URL.

        Raises InvalidRequest, UnsupportedProtocol for a URL that nobody serves, AccessDenied for a place that is
        refused.

        Nothing is read or made yet. `token` is for the URL's origin only.
        """


class RemoteStores(Protocol):
    """Open remote folders and buckets as object stores; keys are paths below the URL."""

    def open(self, url: str, *, writes: bool) -> ObjectStore:
        """Open the store under a URL.

        Raises InvalidRequest for what is no such URL, AccessDenied for a place that may not be read, or with `writes`
        not written.

        Nothing is made or read yet.
        """

    def datasets(self, url: str, *, limit: int) -> Sequence[str]:
        """Paths below the URL at which a dataset lies (`refs/head`), in order.

        A path has one or two parts. Looks at no more than `limit` folders.
        """

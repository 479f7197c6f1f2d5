"""Take in a slice or checkpoint that a peer uploads before the blocks naming it.

Invariant: bytes are hashed as they come, and nothing is kept that does not hash to its name. What is kept is visible to nobody until a chain
names it; if none ever does, the collector takes it. Source: RFC-007; docs/threat-model.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.errors import CorruptedSource, InvalidRequest, LimitExceeded, Place
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, object_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.usecases.ingestion.digesting_stream import DigestingStream

PIECE_BYTES = 1024 * 1024


def accept_object(
    entry: CatalogEntry,
    folder: str,
    name: Multihash,
    chunks: Iterator[bytes],
    *,
    size: int,
    exchange: Exchange,
    objects: ObjectStore,
    size_max: int,
) -> None:
    """Keep an object of `data` or `checkpoints` of `size` bytes.

    One that is there already is left as it is.

    Raises CorruptedSource if the bytes do not hash to `name`, InvalidRequest if there are fewer than announced, InvalidName, LimitExceeded,
    Determinate, Indeterminate.
    """
    if folder not in (DATA, CHECKPOINTS):
        raise InvalidRequest(f"{folder} objects are not uploaded", hint="blocks come by the Smart protocol")
    key = object_key(entry.id, folder, name)
    if size > size_max:
        raise LimitExceeded("the object is too large", limit="object_bytes_max", maximum=size_max)
    with exchange.session() as session:
        path, stream, received = session / "object", DigestingStream(chunks), 0
        with path.open("xb") as file:
            while piece := stream.read(PIECE_BYTES):
                received += file.write(piece)
                if received > size:
                    break
        if received != size:
            raise InvalidRequest(
                f"the body has {received if received < size else 'more'} bytes, {size} were announced",
                place=Place(field="content-length"),
                hint="send it again",
            )
        found = sha3_256_multihash(stream.digest.digest())
        if found != name:
            raise CorruptedSource(
                f"{folder} object {name} was uploaded with bytes that hash to {found}", hint="send it again"
            )
        objects.put_file(key, path)

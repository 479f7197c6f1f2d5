"""Where the parts of a dataset lie: keys of objects, and the text of a ref.

Owns the layout that other nodes read from a bucket, a folder or over HTTP. Invariant: keys are built from hashes and ids
alone, never from names that users choose. Objects are always named by the base16 text of a SHA3-256 multihash. Source:
specification, section "Dataset layout".
"""

from __future__ import annotations

import hashlib

from odfabric.errors import InvalidName
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multibase import invalid_value
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.multihash import DIGEST_BYTES_MAX, SHA3_256, Multihash, sha3_256_multihash

BLOCKS = "blocks"
DATA = "data"
CHECKPOINTS = "checkpoints"
ENGINES = "engines"
"""Beside the dataset: which engine made or reproduces which block."""
REWRITES = "rewrites"
"""Beside the dataset: which heads went back or aside, and why."""
REPORTS = "reports"
"""Beside the dataset: signed verification reports."""
HEAD = "refs/head"
HEAD_LOG = "refs/head.log"
HEAD_SIGNATURE = "refs/head.sig"
ALIAS = "info/alias"
NAMES = "names"
"""Not of a dataset: who has which name, where several nodes share the objects without a common database."""
INPUTS_LOCK = "inputs"
"""Not of a dataset either: name of the lock that keeps those who declare inputs and those who remove datasets apart; nothing lies there."""

_NO_HEAD = "removed "

REF_CHARACTERS_MAX = 100
"""A ref is 69 characters; a little room is left for white space around it."""


def object_path(folder: str, name: Multihash) -> str:
    """Path of an object below the root of its dataset.

    Raises InvalidName for another hash than SHA3-256.
    """
    if folder not in (BLOCKS, DATA, CHECKPOINTS):
        raise InvalidName(f"'{folder}' is not a folder of objects", hint="expected blocks, data or checkpoints")
    if name.code != SHA3_256 or len(name.digest) != DIGEST_BYTES_MAX:
        raise InvalidName(f"'{name}' does not name an object", hint="objects are named by SHA3-256 multihashes")
    return f"{folder}/{name}"


def object_key(dataset: DatasetId, folder: str, name: Multihash) -> str:
    """Key of an object in a store of many datasets. Raises InvalidName."""
    return in_dataset(dataset, object_path(folder, name))


def block_key(dataset: DatasetId, block: Multihash) -> str:
    """Key of the raw bytes of a metadata block. Raises InvalidName."""
    return object_key(dataset, BLOCKS, block)


def data_key(dataset: DatasetId, physical_hash: Multihash) -> str:
    """Key of a data slice or a linked object. Raises InvalidName."""
    return object_key(dataset, DATA, physical_hash)


def checkpoint_key(dataset: DatasetId, physical_hash: Multihash) -> str:
    """Key of an engine checkpoint. Raises InvalidName."""
    return object_key(dataset, CHECKPOINTS, physical_hash)


def engine_records_prefix(dataset: DatasetId, block: Multihash | None = None) -> str:
    """Key prefix of all records about engines, or of those about one block."""
    return in_dataset(dataset, f"{ENGINES}/" if block is None else f"{ENGINES}/{block}/")


def rewrite_records_prefix(dataset: DatasetId) -> str:
    """Key prefix of the records of rewritten history."""
    return in_dataset(dataset, f"{REWRITES}/")


def reports_prefix(dataset: DatasetId) -> str:
    """Key prefix of the verification reports of peers."""
    return in_dataset(dataset, f"{REPORTS}/")


def head_key(dataset: DatasetId) -> str:
    """Key of the only ref, `head`."""
    return in_dataset(dataset, HEAD)


def head_log_key(dataset: DatasetId, segment: int | None = None) -> str:
    """Key of a segment of the head log: of a full one by its number, None: the newest."""
    return in_dataset(dataset, HEAD_LOG if segment is None else f"{HEAD_LOG}.{segment}")


def head_signature_key(dataset: DatasetId) -> str:
    """Key of the newest signature of the head."""
    return in_dataset(dataset, HEAD_SIGNATURE)


def alias_key(dataset: DatasetId) -> str:
    """Key of the text `[account/]name` by which people know the dataset."""
    return in_dataset(dataset, ALIAS)


def name_key(alias: DatasetAlias) -> str:
    """Key of the text that says which dataset has a name. Names do not differ by case."""
    folded = f"{alias.account.folded if alias.account else ''}/{alias.name.folded}"
    return f"{NAMES}/{sha3_256_multihash(hashlib.sha3_256(folded.encode()).digest())}"


def ref_without_head(nonce: str) -> str:
    """Text of a `refs/head` that refers to no block.

    The dataset was removed, or must not be made by who is making it.

    No two of them are the same, so that a write on the condition of one is not taken for that of another.
    """
    return f"{_NO_HEAD}{nonce}"


def has_no_head(text: str | None) -> bool:
    """Whether a ref's text refers to no block on purpose; None if there is no ref."""
    return text is None or text.startswith(_NO_HEAD)


def collector_lock(dataset: DatasetId) -> str:
    """Name of the lock that keeps commits and the collector of a dataset apart.

    Nothing lies there.
    """
    return in_dataset(dataset, "collector")


def dataset_prefix(dataset: DatasetId) -> str:
    """Prefix of all keys of a dataset, ending with a slash."""
    return f"{dataset.multibase}/"


def in_dataset(dataset: DatasetId, path: str) -> str:
    """Key of a path below the root of a dataset."""
    return dataset_prefix(dataset) + path


def dataset_of_key(key: str) -> DatasetId | None:
    """The dataset below whose prefix a key is, or None (uploads and the like)."""
    folder = key.partition("/")[0]
    try:
        dataset = parse_dataset_id(f"did:odf:{folder}")
    except InvalidName:
        return None
    return dataset if key.startswith(dataset_prefix(dataset)) else None


def parse_ref(text: str) -> Multihash:
    """The block of a ref: its hash without a newline. Raises InvalidName.

    White space is forgiven.
    """
    if len(text) > REF_CHARACTERS_MAX:
        raise invalid_value(text, "BlockHash", hint=f"a ref has at most {REF_CHARACTERS_MAX} characters")
    block = parse_multihash(text.strip())
    object_path(BLOCKS, block)
    return block

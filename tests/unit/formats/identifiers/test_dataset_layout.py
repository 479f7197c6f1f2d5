"""Keys of objects and texts of refs."""

from __future__ import annotations

import hashlib

import pytest

from odfabric.errors import InvalidName
from odfabric.formats.identifiers.dataset_layout import (
    alias_key,
    block_key,
    checkpoint_key,
    data_key,
    dataset_of_key,
    dataset_prefix,
    head_key,
    object_key,
    object_path,
    parse_ref,
)
from odfabric.model.multihash import SHA2_256, SHA3_256, Multihash, sha3_256_multihash
from odfabric.testing.identities import seeded_dataset_id

ID = seeded_dataset_id(b"layout")
HASH = sha3_256_multihash(hashlib.sha3_256(b"object").digest())


def test_everything_lies_below_the_folder_of_the_dataset() -> None:
    folder = f"{ID.multibase}/"
    assert folder.startswith("fed01")
    assert len(folder) == 70
    assert dataset_prefix(ID) == folder
    assert block_key(ID, HASH) == f"{folder}blocks/{HASH}" == object_key(ID, "blocks", HASH)
    assert data_key(ID, HASH) == f"{folder}data/{HASH}"
    assert checkpoint_key(ID, HASH) == f"{folder}checkpoints/{HASH}"
    assert head_key(ID) == f"{folder}refs/head"
    assert alias_key(ID) == f"{folder}info/alias"
    assert object_path("data", HASH) == f"data/{HASH}"


def test_a_key_tells_its_dataset() -> None:
    assert dataset_of_key(block_key(ID, HASH)) == ID
    assert dataset_of_key(head_key(ID)) == ID
    others = ["staging/00ff", ID.multibase, f"{ID.multibase.upper()}/refs/head", f"z{ID.multibase}/x", "", "a/b/c"]
    assert [dataset_of_key(key) for key in others] == [None] * len(others)


@pytest.mark.parametrize("name", [Multihash(SHA2_256, bytes(32)), Multihash(SHA3_256, bytes(31))])
def test_only_sha3_256_names_objects(name: Multihash) -> None:
    with pytest.raises(InvalidName, match="does not name an object"):
        data_key(ID, name)


def test_only_known_folders_hold_objects() -> None:
    with pytest.raises(InvalidName, match=r"'\.\./data' is not a folder of objects"):
        object_key(ID, "../data", HASH)


def test_a_ref_holds_the_hash_and_nothing_else() -> None:
    assert parse_ref(str(HASH)) == HASH
    assert parse_ref(f" {HASH}\r\n") == HASH


@pytest.mark.parametrize(
    "text",
    ["", "head", str(HASH)[:-1], str(HASH) + "00", f"{HASH} {HASH}", "x" * 1_000, str(Multihash(SHA2_256, bytes(32)))],
)
def test_a_ref_of_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_ref(text)

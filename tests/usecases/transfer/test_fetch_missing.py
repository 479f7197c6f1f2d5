"""`odf verify --fetch` brings what is missing here, and judges it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.people.access import STRANGER
from odfabric.errors import OdfError
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.transfer.sharing import BYTES_MAX, PLACE, Parties, ended

AREAS = ("blocks/", "data/", "checkpoints/")


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    """`theirs` has a copy from the shelf, `ours` has pushed there."""
    found = Parties(tmp_path)
    for day in (1, 2, 3):
        found.ingest(day)
    found.push()
    found.pull()
    return found


def verify(parties: Parties, *, fetch: bool = True) -> dict[str, Any]:
    node = parties.theirs
    return ended(node, node.node.requests.verify(parties.copy, VerifyOptions(fetch=fetch)))


def objects(parties: Parties) -> list[str]:
    prefix = dataset_prefix(parties.entry.id)
    return [key for area in AREAS for key in parties.theirs.objects.keys(prefix + area)]


def damage(parties: Parties, key: str) -> None:
    data = bytearray(parties.theirs.objects.read_bytes(key, size_max=BYTES_MAX))
    data[len(data) // 2] ^= 1
    parties.theirs.objects.delete(key)
    parties.theirs.objects.put_bytes(key, bytes(data))


def test_each_object_that_is_missing_comes_from_where_the_copy_came_from(parties: Parties) -> None:
    for key in objects(parties):
        parties.theirs.objects.delete(key)
        parties.theirs.restart()
        assert verify(parties, fetch=False)["ok"] is False
        found = verify(parties)
        assert found["ok"], found
        ((folder, name),) = [(each["folder"], each["object"]) for each in found["fetched"]]
        assert key.endswith(f"{folder}/{name}")
        assert found["fetched"][0]["from"] == PLACE
    parties.check_same()


def test_each_object_that_is_damaged_is_replaced(parties: Parties) -> None:
    for key in objects(parties):
        damage(parties, key)
        parties.theirs.restart()
        found = verify(parties)
        assert found["ok"], (key, found)
        assert len(found["fetched"]) == 1
    parties.check_same()


def test_all_of_them(parties: Parties) -> None:
    keys = objects(parties)
    for key in keys:
        parties.theirs.objects.delete(key)
    parties.theirs.restart()
    found = verify(parties)
    assert found["ok"], found
    assert len(found["fetched"]) == len(keys)
    parties.check_same()


def test_where_nothing_is_missing_nobody_is_asked(parties: Parties) -> None:
    for key in list(parties.shelf.keys("")):
        parties.shelf.delete(key)
    found = verify(parties)
    assert (found["ok"], found["fetched"], found["notFetched"]) == (True, [], [])


def test_a_place_that_gives_something_else_is_named_and_nothing_of_it_kept(parties: Parties) -> None:
    key = next(key for key in objects(parties) if "/data/" in key)
    path = key.removeprefix(dataset_prefix(parties.entry.id))
    parties.theirs.objects.delete(key)
    data = parties.shelf.read_bytes(path, size_max=BYTES_MAX)
    parties.shelf.delete(path)
    parties.shelf.put_bytes(path, data[:-1] + bytes([data[-1] ^ 1]))
    parties.theirs.restart()
    found = verify(parties)
    assert [each["kind"] for each in found["errors"]] == ["ObjectNotFound"]
    assert found["fetched"] == []
    assert any(line.startswith(f"{PLACE} does not have") for line in found["notFetched"])
    assert parties.theirs.objects.stat(key) is None


def test_the_original_is_repaired_from_where_it_was_pushed_to(parties: Parties) -> None:
    key = next(key for key in objects(parties) if "/data/" in key)
    parties.ours.objects.delete(key)
    parties.ours.restart()
    parties.ours.remote_stores.share(PLACE, parties.shelf)
    node = parties.ours
    found = ended(node, node.node.requests.verify(parties.entry, VerifyOptions(fetch=True)))
    assert found["ok"], found
    assert found["fetched"][0]["from"] == PLACE


def test_who_may_not_change_the_dataset_fetches_nothing(parties: Parties) -> None:
    with pytest.raises(OdfError):
        parties.theirs.node.requests.verify(parties.copy, VerifyOptions(fetch=True), by=STRANGER)

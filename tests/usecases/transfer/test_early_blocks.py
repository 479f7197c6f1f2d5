"""Blocks that name slices are stored before the commit, each after its slice."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.formats.blocks.block import decode_block
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.model.metadata import AddData
from tests.usecases.transfer.sharing import BYTES_MAX, PLACE, Parties


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_block_is_there_early_only_after_its_slice(tmp_path: Path, missing: int) -> None:
    """Of a source that lacks a slice, only the blocks before it are here."""
    parties = Parties(tmp_path)
    for day in (1, 2, 3):
        parties.ingest(day)
    assert parties.push().get("blocks"), PLACE
    slices = [each for each in _slices(parties) if each is not None]
    parties.shelf.delete(f"data/{slices[missing]}")
    assert parties.pull()["code"] == "corrupted-source"
    prefix = dataset_prefix(parties.entry.id)
    early = {
        str(event.new_data.physical_hash)
        for key in parties.theirs.objects.keys(f"{prefix}blocks/")
        if isinstance(event := decode_block(parties.theirs.objects.read_bytes(key, size_max=BYTES_MAX)).event, AddData)
        and event.new_data is not None
    }
    assert early == set(slices[:missing])


def _slices(parties: Parties) -> list[str | None]:
    """Slices of the dataset, oldest first."""
    node, entry = parties.ours.node, parties.entry
    stored = node.repository.blocks(entry.id)
    events = [stored.get(row.hash).event for row in node.repository.rows_down(entry.id)][::-1]
    return [
        str(event.new_data.physical_hash) if isinstance(event, AddData) and event.new_data else None for event in events
    ]

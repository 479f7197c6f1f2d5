"""Small files are read whole, and each costs what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.local_fs.small_file import read_at_most

LIMIT = 4 * 1024 * 1024
PIECES = 500


def mappings() -> int:
    """Of memory, of this process."""
    return Path("/proc/self/maps").read_text().count("\n")


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(size)))
    with path.open("rb") as file:
        assert read_at_most(file, 100) == bytes(range(size))


@pytest.mark.parametrize("size", [101, 5000])
def test_more_than_the_limit_is_seen_and_not_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    with path.open("rb") as file:
        assert len(read_at_most(file, 100)) == 101


def test_many_pieces_need_no_mapping_of_memory_each(tmp_path: Path) -> None:
    """A process may have 65,530; a chain of 100,000 blocks did not fit."""
    path = tmp_path / "block"
    path.write_bytes(b"x" * 200)
    before, kept = mappings(), []
    for _ in range(PIECES):
        with path.open("rb") as file:
            kept.append(read_at_most(file, LIMIT))
    assert mappings() - before < PIECES / 10
    assert len(kept) == PIECES

"""Kept files: whole or not at all, within a limit, never believed when broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric_engine_spark.arrays.kept_files import NAME_BYTES, KeptFiles

HEADER_BYTES = 64
CONTENT = bytes(range(200)) * 5


def name(number: int) -> bytes:
    """A name as digests are."""
    return bytes([number]) * NAME_BYTES


def put(files: KeptFiles, number: int, content: bytes = CONTENT) -> bool:
    """Keeps some content, in two parts."""
    return files.put(name(number), [memoryview(content[:70]), memoryview(content[70:])])


def folder_bytes(folder: Path) -> int:
    """What all files of a folder take."""
    return sum(path.stat().st_size for path in folder.iterdir())


def test_every_process_finds_what_one_has_put(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    first, second = KeptFiles(folder, bytes_max=10_000), KeptFiles(folder, bytes_max=10_000)
    assert first.get(name(1)) is None
    assert put(first, 1)
    for files in (first, second, second):
        found = files.get(name(1))
        assert found is not None
        assert bytes(found) == CONTENT
    assert second.get(name(2)) is None


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:HEADER_BYTES], id="empty"),
        pytest.param(lambda data: data[:10], id="header-cut"),
        pytest.param(lambda data: b"", id="nothing"),
        pytest.param(lambda data: data[:300] + b"?" + data[301:], id="content-changed"),
        pytest.param(lambda data: b"OTHER" + data[5:], id="of-another-form"),
        pytest.param(lambda data: data[:16] + name(2) + data[48:], id="of-another-name"),
    ],
)
def test_a_broken_or_foreign_file_is_removed_and_made_again(tmp_path: Path, broken: Callable[[bytes], bytes]) -> None:
    assert put(KeptFiles(tmp_path, bytes_max=10_000), 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(broken(path.read_bytes()))
    files = KeptFiles(tmp_path, bytes_max=10_000)
    assert files.get(name(1)) is None
    assert not path.exists()
    assert put(files, 1)
    found = files.get(name(1))
    assert found is not None
    assert bytes(found) == CONTENT


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    size = len(CONTENT) + HEADER_BYTES
    files = KeptFiles(tmp_path, bytes_max=3 * size)
    for number in range(3):
        assert put(files, number)
    for number, path in enumerate([tmp_path / f"{name(number).hex()}.kept" for number in range(3)]):
        os.utime(path, (number, number))
    assert KeptFiles(tmp_path, bytes_max=3 * size).get(name(0)) is not None
    assert put(files, 3)
    assert folder_bytes(tmp_path) <= 3 * size
    assert [number for number in range(4) if files.get(name(number)) is not None] == [0, 2, 3]


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, bytes_max=len(CONTENT))
    assert not put(files, 1)
    assert files.get(name(1)) is None


def test_what_a_process_left_unfinished_counts_and_goes(tmp_path: Path) -> None:
    (tmp_path / "4711-0.part").write_bytes(bytes(5_000))
    os.utime(tmp_path / "4711-0.part", (1, 1))
    assert put(KeptFiles(tmp_path, bytes_max=5_500), 1)
    assert not (tmp_path / "4711-0.part").exists()


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"no folder")
    files = KeptFiles(tmp_path / "kept", bytes_max=10_000)
    assert not put(files, 1)
    assert files.get(name(1)) is None


def test_a_removed_file_is_unmapped(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, bytes_max=10_000)
    assert put(files, 1)
    assert files.get(name(1)) is not None
    (path,) = tmp_path.iterdir()
    assert path.name in Path("/proc/self/maps").read_text()
    path.unlink()
    files.give_up_removed()
    assert path.name not in Path("/proc/self/maps").read_text()
    assert files.get(name(1)) is None

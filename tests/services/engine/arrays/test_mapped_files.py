"""Mapped files are kept while another name exists, up to a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric_engine_spark.arrays.mapped_files import KEPT_BYTES_MIN, MappedFiles

CONTENT = b"content" * KEPT_BYTES_MIN


def linked(folder: Path, name: str, content: bytes = CONTENT) -> Path:
    """A file with a second name, and that name."""
    (folder / name).write_bytes(content)
    (folder / f"kept-{name}").hardlink_to(folder / name)
    return folder / name


def has_mapped(path: Path) -> bool:
    """Whether this process has the file mapped, by any of its names."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any(str(path.parent) in line and path.name in line for line in lines)


def test_a_file_with_a_name_elsewhere_is_found_in_place(tmp_path: Path) -> None:
    files = MappedFiles()
    address = files.mapped(linked(tmp_path, "a")).address
    (tmp_path / "a").unlink()
    (tmp_path / "again").hardlink_to(tmp_path / "kept-a")
    again = files.mapped(tmp_path / "again")
    assert again.address == address
    assert again.to_pybytes() == CONTENT


def test_a_file_that_changed_is_another(tmp_path: Path) -> None:
    files, path = MappedFiles(), linked(tmp_path, "a")
    before = files.mapped(path)
    with path.open("ab") as file:
        file.write(b"more")
    assert files.mapped(path).to_pybytes() == CONTENT + b"more"
    assert before.size == len(CONTENT)


@pytest.mark.parametrize("content", [b"", b"small", CONTENT])
def test_a_file_without_another_name_is_let_go(tmp_path: Path, content: bytes) -> None:
    files = MappedFiles()
    (tmp_path / "alone").write_bytes(content)
    found = files.mapped(tmp_path / "alone")
    assert found.to_pybytes() == content
    del found
    assert not has_mapped(tmp_path / "alone")


def test_a_small_file_is_let_go(tmp_path: Path) -> None:
    files = MappedFiles()
    path = linked(tmp_path, "small", b"small")
    files.mapped(path)
    assert not has_mapped(path)


@pytest.mark.parametrize("by_next", [True, False])
def test_what_is_removed_is_let_go(tmp_path: Path, by_next: bool) -> None:
    files = MappedFiles()
    path = linked(tmp_path, "gone")
    files.mapped(path)
    stays = linked(tmp_path, "stays")
    files.mapped(stays)
    assert has_mapped(path)
    path.unlink()
    (tmp_path / "kept-gone").unlink()
    if by_next:
        files.mapped(linked(tmp_path, "next"))
    else:
        files.give_up_removed()
    assert not has_mapped(path)
    assert has_mapped(stays)


@pytest.mark.parametrize("limit", [{"files_max": 2}, {"bytes_max": 2 * len(CONTENT)}], ids=["files", "bytes"])
def test_the_least_used_are_given_up(tmp_path: Path, limit: dict[str, int]) -> None:
    files = MappedFiles(**limit)
    for name in ("first", "second", "first", "third"):
        files.mapped(tmp_path / name if (tmp_path / name).exists() else linked(tmp_path, name))
    assert [name for name in ("first", "second", "third") if has_mapped(tmp_path / name)] == ["first", "third"]


def test_who_uses_a_file_keeps_it(tmp_path: Path) -> None:
    files = MappedFiles(files_max=1)
    used = files.mapped(linked(tmp_path, "used"))
    files.mapped(linked(tmp_path, "next"))
    assert used.to_pybytes() == CONTENT


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MappedFiles().mapped(tmp_path / "missing")

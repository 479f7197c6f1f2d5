"""The exchange folder: what dead processes leave goes, what living ones use stays."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.exchange import OWNER, FolderExchange
from odfabric.errors import Determinate
from tests.support.quick_processes import quick_processes


def hold_session(root: Path, told: Connection) -> None:
    exchange = FolderExchange(root)
    with exchange.session() as folder:
        (folder / "file").write_bytes(b"data")
        told.send(str(folder))
        signal.pause()


def test_sessions_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    root = tmp_path / "exchange"
    ours, theirs = multiprocessing.Pipe()
    process = quick_processes().Process(target=hold_session, args=(root, theirs), daemon=True)
    process.start()
    assert ours.poll(60)
    folder = Path(ours.recv())
    exchange = FolderExchange(root)
    with exchange.session():
        assert (folder / "file").is_file()
    assert exchange.remove_leftovers() == 0
    process.kill()
    process.join(60)
    assert folder.is_dir()
    assert exchange.remove_leftovers() == 1
    assert not folder.exists()
    with exchange.session() as mine:
        exchange.remove_leftovers()
        assert mine.is_dir()
    exchange.close()
    assert list(root.iterdir()) == []


def test_a_session_that_an_engine_still_writes_to_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, other = FolderExchange(tmp_path), FolderExchange(tmp_path)
    for clean_up in (exchange.session().__enter__, exchange.remove_leftovers, exchange.close):
        with monkeypatch.context() as writing, exchange.session() as folder:
            writing.setattr(
                shutil, "rmtree", lambda *_, **__: None
            )  # a file came between the last look and the removal
        assert folder.is_dir()
        other.remove_leftovers()
        assert folder.is_dir(), "its process lives"
        clean_up()
        assert not folder.exists()


def test_sessions_that_are_open_at_the_end_of_a_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    ending, next_one = FolderExchange(tmp_path), FolderExchange(tmp_path)
    with ending.session() as folder:
        ending.close()
        next_one.remove_leftovers()
        assert folder.is_dir(), "a thread of it may be at work"
    ending.close()
    left = tmp_path / f"{secrets.token_hex(8)}-7"  # as they were left by earlier versions
    left.mkdir()
    assert next_one.remove_leftovers() == 1
    assert list(tmp_path.iterdir()) == []


def test_the_first_session_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "dead-1").mkdir()
    (tmp_path / "dead-2").mkdir()
    (tmp_path / "of-somebody-else").mkdir()
    (tmp_path / f"{OWNER}dead").touch()
    exchange = FolderExchange(tmp_path)
    with exchange.session() as folder:
        left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
        assert left == sorted([folder.name, "of-somebody-else"])
    exchange.close()


def test_one_clean_up_is_bounded(tmp_path: Path) -> None:
    for owner in range(10):
        (tmp_path / f"{OWNER}dead{owner}").touch()
        (tmp_path / f"dead{owner}-1").mkdir()
    exchange = FolderExchange(tmp_path, leftovers_max=4)
    assert [exchange.remove_leftovers() for _ in range(4)] == [4, 4, 2, 0]


def test_a_missing_folder_has_no_leftovers(tmp_path: Path) -> None:
    assert FolderExchange(tmp_path / "nothing").remove_leftovers() == 0
    assert not (tmp_path / "nothing").exists()


def test_sessions_are_for_the_owner_only(tmp_path: Path) -> None:
    exchange = FolderExchange(tmp_path / "exchange")
    with exchange.session() as folder:
        assert os.stat(folder).st_mode & 0o777 == 0o700
    exchange.close()


def test_a_folder_that_cannot_be_made_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Determinate), FolderExchange(tmp_path / "file" / "exchange").session():
        pass


def test_a_closed_exchange_can_be_used_again(tmp_path: Path) -> None:
    exchange = FolderExchange(tmp_path)
    for _ in range(2):
        with exchange.session():
            assert len(list(tmp_path.glob(f"{OWNER}*"))) == 1
        exchange.close()
        assert list(tmp_path.iterdir()) == []
    exchange.close()

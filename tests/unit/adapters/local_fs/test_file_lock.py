"""Locks of files: one holder, freed by death, never two camps."""

from __future__ import annotations

import fcntl
import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.file_lock import held_lock, try_lock, unlock
from tests.support.quick_processes import quick_processes


def test_one_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    unlock(path, first)
    assert not path.exists()
    second = try_lock(path)
    assert second is not None
    unlock(path, second)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_on_a_file_that_lost_its_name_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    path = tmp_path / "lock"
    real = fcntl.flock

    def holder_leaves_first(opened: int, operation: int) -> None:
        monkeypatch.undo()
        path.unlink()
        if replaced:
            path.touch()
        real(opened, operation)

    monkeypatch.setattr(fcntl, "flock", holder_leaves_first)
    assert try_lock(path) is None
    held = try_lock(path)
    assert held is not None
    unlock(path, held)


def test_waiting_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    started = time.monotonic()
    with held_lock(path, wait_s_max=1), pytest.raises(TimeoutError), held_lock(path, wait_s_max=0.05):
        pass
    assert 0.05 <= time.monotonic() - started < 10


def hold(path: Path, told: Connection) -> None:
    with held_lock(path, wait_s_max=10):
        told.send("held")
        signal.pause()


def test_a_dead_holder_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ours, theirs = multiprocessing.Pipe()
    process = quick_processes().Process(target=hold, args=(path, theirs), daemon=True)
    process.start()
    assert ours.poll(60)
    assert try_lock(path) is None
    process.kill()
    process.join(60)
    with held_lock(path, wait_s_max=5):
        assert path.exists()
    assert not path.exists()

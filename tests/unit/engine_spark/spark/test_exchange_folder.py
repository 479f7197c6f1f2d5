"""Paths of the contract stay below the exchange folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import Determinate, InvalidRequest, OdfError
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder


@pytest.fixture
def folder(tmp_path: Path) -> ExchangeFolder:
    exchange = ExchangeFolder.at(tmp_path / "exchange")
    (exchange.root / "call").mkdir()
    (exchange.root / "call/in").write_text("x")
    (tmp_path / "secret").write_text("x")
    return exchange


def test_files_of_a_call(folder: ExchangeFolder) -> None:
    assert folder.input("call/in") == folder.root / "call/in"
    assert folder.output("call/new") == folder.root / "call/new"
    with folder.scratch("call/new") as scratch:
        assert scratch.parent == folder.root / "call"
        (scratch / "part").write_text("x")
    assert not scratch.exists()


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../secret",
        "/etc/passwd",
        "call/../../secret",
        "call//in",
        "call/",
        "a\0b",
        "a\\b",
        "a" * 5000,
        "a" * 256,
        "é" * 128,
    ],
)
def test_other_spellings_are_refused(folder: ExchangeFolder, path: str) -> None:
    for resolve in (folder.input, folder.output):
        with pytest.raises(InvalidRequest):
            resolve(path)


def test_symbolic_links_are_not_followed(folder: ExchangeFolder) -> None:
    (folder.root / "link").symlink_to(folder.root.parent)
    (folder.root / "call/file").symlink_to(folder.root.parent / "secret")
    for path in ("link/secret", "call/file"):
        with pytest.raises(InvalidRequest):
            folder.input(path)
        with pytest.raises(InvalidRequest):
            folder.output(path)


def test_what_is_not_there(folder: ExchangeFolder) -> None:
    with pytest.raises(Determinate):
        folder.input("call/other")
    with pytest.raises(Determinate):
        folder.output("other/new")


@given(path=st.text(alphabet="a./\\\0 ", max_size=12))
def test_no_path_leads_out(path: str) -> None:
    folder = ExchangeFolder(Path("/nowhere/exchange"))
    try:
        found = folder.output(path)
    except OdfError:
        return
    assert folder.root in found.resolve().parents


def test_what_is_no_file_is_not_written(tmp_path: Path) -> None:
    folder = ExchangeFolder.at(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in ("pipe", "folder"):
        with pytest.raises(InvalidRequest, match="not to be written"):
            folder.output(path)
    (tmp_path / "there").touch()
    assert folder.output("there") == tmp_path.resolve() / "there"


def test_files_that_are_written_together_are_both_there_or_neither(folder: ExchangeFolder) -> None:
    with folder.outputs("call/one", "call/other") as files:
        for file in files:
            file.write_text("x")
    assert all(file.is_file() for file in files)
    with pytest.raises(ValueError, match="boom"), folder.outputs("call/one", "call/other") as files:
        raise ValueError("boom")
    assert not any(file.exists() for file in files)
    with pytest.raises(Determinate), folder.outputs("call/in", "nowhere/other"):
        pass
    assert (folder.root / "call/in").is_file(), "nothing was to be written yet"

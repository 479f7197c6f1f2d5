"""The poll folder: links, escapes, odd files; and a user who may read anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.poll_folder import PollFolder
from odfabric.errors import AccessDenied, InvalidRequest, LimitExceeded, NotFound, OdfError


@pytest.fixture
def poll(tmp_path: Path) -> Path:
    """A poll folder with two files, beside a secret."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/keys.csv").write_bytes(b"secret")
    (tmp_path / "poll/data").mkdir(parents=True)
    (tmp_path / "poll/data/1.csv").write_bytes(b"1")
    (tmp_path / "poll/data/2.csv").write_bytes(b"22")
    return tmp_path / "poll"


def test_without_a_folder_everything_is_refused(poll: Path) -> None:
    files = PollFolder(None)
    for text in ("data/1.csv", str(poll / "data/1.csv"), f"file://{poll}/data/1.csv", "/etc/passwd"):
        with pytest.raises(AccessDenied):
            files.file(text)
    with pytest.raises(AccessDenied):
        files.glob("*")


def test_absolute_paths_below_the_folder_are_read(poll: Path) -> None:
    files = PollFolder(poll)
    for text in (f"{poll}/data/1.csv", f"file://{poll}/data/1.csv", f"file:{poll}/data/1.csv"):
        assert files.file(text).path == poll / "data/1.csv"
    assert files.file(f"FILE://localhost{poll}/data/../data/./1.csv").name == "1.csv"
    assert [file.name for file in files.glob(f"{poll}/*/*.csv")] == ["1.csv", "2.csv"]


def test_a_sibling_with_the_same_beginning_is_outside(poll: Path, tmp_path: Path) -> None:
    (tmp_path / "poll-private").mkdir()
    (tmp_path / "poll-private/x.csv").write_bytes(b"secret")
    with pytest.raises(AccessDenied):
        PollFolder(poll).file(str(tmp_path / "poll-private/x.csv"))


@pytest.mark.parametrize("target", ["../../secret/keys.csv", "../../secret", "../../nothing", "/etc/passwd", "/"])
def test_links_that_lead_out_are_refused_whether_or_not_there_is_anything(poll: Path, target: str) -> None:
    (poll / "data/link.csv").symlink_to(target)
    files = PollFolder(poll)
    with pytest.raises(AccessDenied):
        files.file("data/link.csv")
    for pattern in ("data/*.csv", "data/link.csv", "**/*.csv", "*/link*"):
        with pytest.raises(AccessDenied):
            files.glob(pattern)
    assert [file.name for file in files.glob("data/?.csv")] == ["1.csv", "2.csv"]


def test_folders_that_lead_out_are_refused(poll: Path) -> None:
    (poll / "out").symlink_to(poll.parent / "secret")
    files = PollFolder(poll)
    for read in (
        lambda: files.file("out/keys.csv"),
        lambda: files.glob("out/*.csv"),
        lambda: files.glob("*/keys.csv"),
        lambda: files.glob("**/keys.csv"),
    ):
        with pytest.raises(AccessDenied):
            read()


def test_links_inside_are_followed_and_keep_their_name(poll: Path) -> None:
    (poll / "data/latest.csv").symlink_to("1.csv")
    (poll / "alias").symlink_to("data")
    files = PollFolder(poll)
    latest = files.file("data/latest.csv")
    assert (latest.name, latest.path, latest.size) == ("latest.csv", poll / "data/1.csv", 1)
    assert [file.name for file in files.glob("data/l*.csv")] == ["latest.csv"]
    assert files.file("alias/2.csv").path == poll / "data/2.csv"
    assert [file.name for file in files.glob("alias/*.csv")] == ["1.csv", "2.csv", "latest.csv"]


def test_loops_end(poll: Path) -> None:
    (poll / "data/up").symlink_to("..")
    (poll / "self").symlink_to("self")
    files = PollFolder(poll, entries_max=1000)
    assert {file.path for file in files.glob("**/*.csv")} == {poll / "data/1.csv", poll / "data/2.csv"}
    with pytest.raises(OdfError):
        files.file("self")


def test_the_folder_itself_may_be_behind_a_link(poll: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(poll)
    files = PollFolder(tmp_path / "here")
    assert files.file("data/1.csv").path == files.file(str(tmp_path / "here/data/1.csv")).path == poll / "data/1.csv"


def test_what_is_not_a_regular_file_does_not_exist(poll: Path) -> None:
    os.mkfifo(poll / "pipe.csv")
    (poll / "folder.csv").mkdir()
    files = PollFolder(poll)
    for name in ("pipe.csv", "folder.csv", "data", "."):
        with pytest.raises(NotFound):
            files.file(name)
    assert files.glob("*.csv") == []


@pytest.mark.parametrize("text", ["file://a?b", "file://a#b", "file://%ff", "file://a%00b", "file:", "x" * 5000])
def test_texts_that_name_no_file(poll: Path, text: str) -> None:
    with pytest.raises(InvalidRequest):
        PollFolder(poll).file(text)


def test_long_names_are_not_found(poll: Path) -> None:
    with pytest.raises(NotFound):
        PollFolder(poll).file("x" * 300)


def test_names_that_are_not_utf8_are_told(poll: Path) -> None:
    (poll / os.fsdecode(b"caf\xe9.csv")).write_bytes(b"")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        PollFolder(poll).glob("*.csv")


def test_looking_is_bounded(poll: Path) -> None:
    for number in range(20):
        (poll / f"{number}.txt").write_bytes(b"")
    assert len(PollFolder(poll, entries_max=23).glob("**/*.csv")) == 2
    with pytest.raises(LimitExceeded):
        PollFolder(poll, entries_max=22).glob("**/*.csv")


def test_messages_hide_where_the_folder_lies(poll: Path) -> None:
    files = PollFolder(poll)
    for read in (lambda: files.file("nothing"), lambda: files.file("../secret"), lambda: files.glob("../*")):
        with pytest.raises(OdfError) as refused:
            read()
        assert str(poll.parent) not in str(refused.value)


def test_a_workspaces_user_may_read_anything_from_where_he_stands(poll: Path) -> None:
    files = PollFolder(None, anywhere=True, start=poll / "data")
    assert files.file("1.csv").path == poll / "data/1.csv"
    assert files.file("../../secret/keys.csv").path == poll.parent / "secret/keys.csv"
    assert files.file(f"file://{poll.parent}/secret/keys.csv").name == "keys.csv"
    assert [file.name for file in files.glob("../../*/keys.csv")] == ["keys.csv"]
    (poll / "data/link").symlink_to(poll.parent / "secret")
    assert [file.name for file in files.glob("link/*")] == ["keys.csv"]


def test_an_absolute_pattern_looks_only_where_it_must(poll: Path) -> None:
    files = PollFolder(None, anywhere=True, start=poll, entries_max=2)
    assert [file.name for file in files.glob(f"{poll}/data/*.csv")] == ["1.csv", "2.csv"]

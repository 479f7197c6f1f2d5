"""What PollingFiles and SourcePreparation promise, as tests."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Protocol

import pytest

from odfabric.errors import AccessDenied, InvalidData, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.instant import Instant
from odfabric.ports.sources.polling_files import PollingFiles, SourcePreparation
from odfabric.testing.conformance.examples import NOW

FILES_MAX = 20


class AddFile(Protocol):
    """Puts a file below the poll folder."""

    def __call__(self, name: str, data: bytes = b"data", *, modified_at: Instant = NOW) -> None:
        """Make or replace it."""


class PollingFilesContract:
    """A subclass gives `files` (poll folder, FILES_MAX per glob) and `add_file`."""

    @pytest.fixture
    def files(self) -> PollingFiles:
        raise NotImplementedError

    @pytest.fixture
    def add_file(self) -> AddFile:
        raise NotImplementedError

    def test_a_file_is_found_with_size_and_time(self, files: PollingFiles, add_file: AddFile) -> None:
        add_file("2024/flights 1.csv", b"12345")
        expected = ("flights 1.csv", 5, NOW)
        for text in ("2024/flights 1.csv", "./2024/flights 1.csv", "file://2024/flights%201.csv"):
            found = files.file(text)
            assert (found.name, found.size, found.modified_at) == expected
            assert found.path.read_bytes() == b"12345"

    @pytest.mark.parametrize("text", ["nothing.csv", "a", "a/b.csv/c", "file://a/nothing.csv", "a/b.csvx"])
    def test_what_is_not_there_is_not_found(self, files: PollingFiles, add_file: AddFile, text: str) -> None:
        add_file("a/b.csv")
        with pytest.raises(NotFound) as missing:
            files.file(text)
        assert missing.value.name == text

    @pytest.mark.parametrize(
        "text",
        [
            "/etc/passwd",
            "file:///etc/passwd",
            "file:///etc/%70asswd",
            "../secret",
            "a/../../secret",
            "file://../secret",
            "file://%2e%2e/secret",
            "/nothing/at/all",
            "../../../../../../../../etc/passwd",
        ],
    )
    def test_outside_nothing_can_be_told_apart(self, files: PollingFiles, add_file: AddFile, text: str) -> None:
        add_file("a/b.csv")
        with pytest.raises(AccessDenied):
            files.file(text)
        if not text.startswith("file:"):
            with pytest.raises(AccessDenied):
                files.glob(text)
            with pytest.raises(AccessDenied):
                files.glob(text + "*")

    @pytest.mark.parametrize("text", ["", "a\0b", "\0"])
    def test_what_names_nothing_is_refused(self, files: PollingFiles, text: str) -> None:
        with pytest.raises(InvalidRequest):
            files.file(text)
        with pytest.raises(InvalidRequest):
            files.glob(text)

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.csv", ["top.csv"]),
            ("*/*.csv", ["a1.csv", "a2.csv", "b1.csv"]),
            ("a/*.csv", ["a1.csv", "a2.csv"]),
            ("a/a?.csv", ["a1.csv", "a2.csv"]),
            ("a/a[2-9].*", ["a2.csv"]),
            ("a/a[!2].*", ["a1.csv"]),
            ("[ab]/?1.csv", ["a1.csv", "b1.csv"]),
            ("**/*.csv", ["a1.csv", "a2.csv", "b1.csv", "deep.csv", "top.csv"]),
            ("a/**", ["a1.csv", "a2.csv", "deep.csv"]),
            ("a/**/deep.csv", ["deep.csv"]),
            ("**/c/**/*.csv", ["deep.csv"]),
            ("a/a1.csv", ["a1.csv"]),
            ("a", []),
            ("*", ["top.csv"]),
            ("A/*.csv", []),
            ("a/*.CSV", []),
            ("nothing/*", []),
            ("*/.*.csv", [".hidden.csv"]),
        ],
    )
    def test_patterns(self, files: PollingFiles, add_file: AddFile, pattern: str, found: list[str]) -> None:
        for name in ("top.csv", "a/a1.csv", "a/a2.csv", "b/b1.csv", "a/c/d/deep.csv", "a/.hidden.csv", ".x/h.csv"):
            add_file(name)
        assert [file.name for file in files.glob(pattern)] == found

    def test_files_are_ordered_by_name_then_path(self, files: PollingFiles, add_file: AddFile) -> None:
        for name in ("b/1.csv", "a/2.csv", "a/10.csv", "a/1.csv", "c/B.csv", "c/a.csv"):
            add_file(name, name.encode())
        read = [file.path.read_text() for file in files.glob("*/*.csv")]
        assert read == ["a/1.csv", "b/1.csv", "a/10.csv", "a/2.csv", "c/B.csv", "c/a.csv"]

    def test_too_many_files_are_refused(self, files: PollingFiles, add_file: AddFile) -> None:
        for number in range(FILES_MAX):
            add_file(f"a/{number}.csv")
        assert len(files.glob("a/*.csv")) == FILES_MAX
        add_file("a/more.csv")
        with pytest.raises(LimitExceeded):
            files.glob("a/*.csv")

    @pytest.mark.parametrize("pattern", ["*/../x", "a/*/../../../etc/*", "*" * 5000])
    def test_patterns_that_are_refused(self, files: PollingFiles, pattern: str) -> None:
        with pytest.raises((InvalidRequest, AccessDenied, LimitExceeded)):
            files.glob(pattern)


class SourcePreparationContract:
    """A subclass gives `preparation`.

    Only what is promised for well-formed sources; refusals depend on limits.
    """

    @pytest.fixture
    def preparation(self) -> SourcePreparation:
        raise NotImplementedError

    @pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n", bytes(range(256)) * 3000])
    def test_what_was_packed_comes_out(self, preparation: SourcePreparation, tmp_path: Path, data: bytes) -> None:
        source = tmp_path / "source"
        source.write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
        preparation.decompress_gzip(source, tmp_path / "gunzipped")
        assert (tmp_path / "gunzipped").read_bytes() == data
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            source.write_bytes(zip_of({"folder/": b"", "folder/a.csv": data, "b.csv": b"other"}, method=method))
            for number, sub_path in enumerate(("folder/a.csv", "folder/*", "*a.csv")):
                into = tmp_path / f"unzipped-{method}-{number}"
                preparation.decompress_zip(source, into, sub_path=sub_path)
                assert into.read_bytes() == data
        preparation.copy(source, tmp_path / "copied")
        assert (tmp_path / "copied").read_bytes() == source.read_bytes()

    def test_the_entry_of_exactly_that_name_comes_before_the_pattern(
        self, preparation: SourcePreparation, tmp_path: Path
    ) -> None:
        source = tmp_path / "source.zip"
        source.write_bytes(zip_of({"a1": b"by pattern", "a[1]": b"by name"}))
        preparation.decompress_zip(source, tmp_path / "out", sub_path="a[1]")
        assert (tmp_path / "out").read_bytes() == b"by name"

    @pytest.mark.parametrize("litter", [[], ["__MACOSX/folder/._a.csv", "folder/.DS_Store"]])
    def test_the_only_file_of_an_archive_needs_no_name(
        self, preparation: SourcePreparation, tmp_path: Path, litter: list[str]
    ) -> None:
        source = tmp_path / "source.zip"
        source.write_bytes(zip_of({"folder/": b"", "folder/a.csv": b"1", **dict.fromkeys(litter, b"x")}))
        preparation.decompress_zip(source, tmp_path / "out", sub_path=None)
        assert (tmp_path / "out").read_bytes() == b"1"

    @pytest.mark.parametrize("sub_path", [None, "nothing.csv", "*.csv", "folder", "", "A.CSV"])
    def test_an_entry_that_is_not_there_or_not_alone_names_those_that_are(
        self, preparation: SourcePreparation, tmp_path: Path, sub_path: str | None
    ) -> None:
        source = tmp_path / "source.zip"
        source.write_bytes(zip_of({"folder/": b"", "a.csv": b"1", "b.csv": b"2"}))
        with pytest.raises(InvalidData) as refused:
            preparation.decompress_zip(source, tmp_path / "out", sub_path=sub_path)
        assert "a.csv" in str(refused.value)
        assert "b.csv" in str(refused.value)
        assert refused.value.place.file == "source.zip"
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("data", [b"", b"not an archive", b"PK\x03\x04", b"\x1f\x8b", b"\0" * 1000])
    def test_what_is_no_archive_is_the_users_fault(
        self, preparation: SourcePreparation, tmp_path: Path, data: bytes
    ) -> None:
        source = tmp_path / "source"
        source.write_bytes(data)
        with pytest.raises(InvalidData):
            preparation.decompress_gzip(source, tmp_path / "out")
        with pytest.raises(InvalidData):
            preparation.decompress_zip(source, tmp_path / "out", sub_path=None)
        assert not (tmp_path / "out").exists()


def zip_of(entries: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of some entries; a name that ends with a slash is a folder."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return packed.getvalue()

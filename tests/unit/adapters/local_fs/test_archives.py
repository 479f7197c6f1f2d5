"""Untrusted archives: exact bytes or a refusal, no crash, within limits."""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.adapters.local_fs.archives import ArchiveLimits, ArchivePreparation
from odfabric.errors import Determinate, InvalidData, LimitExceeded, NotFound
from odfabric.testing.conformance.sources.polling_files import zip_of
from tests.support.turns import examples

MIB = 1024 * 1024
DATA = b"".join(b"%d,%d\n" % (number, number * 7919 % 1000) for number in range(5000))


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


def preparation(**limits: int) -> ArchivePreparation:
    return ArchivePreparation(ArchiveLimits(**limits))


def zip_with(entry: zipfile.ZipInfo, data: bytes = b"data") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(entry, data)
    return packed.getvalue()


def entry_with_mode(mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("entry")
    entry.external_attr = mode << 16
    return entry


def refused_zip(source: Path, into: Path, packed: bytes, *, match: str, sub_path: str | None = None) -> None:
    source.write_bytes(packed)
    with pytest.raises(InvalidData, match=match) as refused:
        preparation().decompress_zip(source, into, sub_path=sub_path)
    assert refused.value.place.file == "source"
    assert not into.exists()


@pytest.mark.parametrize(
    "mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR, stat.S_IFSOCK, stat.S_IFDIR | 0o755]
)
def test_links_and_special_entries_are_refused(source: Path, into: Path, mode: int) -> None:
    refused_zip(
        source,
        into,
        zip_with(entry_with_mode(mode), b"/etc/passwd"),
        match="link" if stat.S_ISLNK(mode) else "no regular",
    )


def test_regular_entries_of_any_maker_are_taken(source: Path, into: Path) -> None:
    for mode in (0, stat.S_IFREG | 0o644, 0o755):
        source.write_bytes(zip_with(entry_with_mode(mode)))
        preparation().decompress_zip(source, into, sub_path="entry")
        assert into.read_bytes() == b"data"
        into.unlink()


@pytest.mark.parametrize("flag", [0x1, 0x40, 0x2000])
def test_encrypted_entries_are_refused(source: Path, into: Path, flag: int) -> None:
    packed = bytearray(zip_of({"entry": b"data"}))
    at = packed.index(b"PK\x01\x02") + 8
    struct.pack_into("<H", packed, at, flag)
    refused_zip(source, into, bytes(packed), match="encrypted")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_cannot_be_bounded_are_refused(source: Path, into: Path, method: int) -> None:
    refused_zip(source, into, zip_of({"entry": b"x" * 1000}, method=method), match="method")


def test_an_unknown_method_is_refused(source: Path, into: Path) -> None:
    packed = bytearray(zip_of({"entry": b"data"}))
    struct.pack_into("<H", packed, packed.index(b"PK\x01\x02") + 10, 99)
    refused_zip(source, into, bytes(packed), match="method 99")


@pytest.mark.parametrize(
    "name", ["../../escape", "/etc/passwd", "a/../../b", "C:\\x", "..\\x", "a\x00b", "x" * 60_000, "\u202egnp.exe", "~"]
)
def test_names_of_entries_are_never_paths(tmp_path: Path, source: Path, into: Path, name: str) -> None:
    source.write_bytes(zip_of({name: DATA}))
    preparation().decompress_zip(source, into, sub_path=None)
    assert into.read_bytes() == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


def test_an_ambiguous_choice_is_refused(source: Path, into: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("twice.csv", b"one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("twice.csv", b"two")
    refused_zip(source, into, packed.getvalue(), match="2 entries fit 'twice.csv'", sub_path="twice.csv")
    refused_zip(
        source,
        into,
        zip_of({"a.csv": b"", "b.csv": b""}),
        match="2 entries fit '\\*.csv'; it has 'a.csv', 'b.csv'",
        sub_path="*.csv",
    )


def test_an_archive_without_files_is_refused(source: Path, into: Path) -> None:
    refused_zip(source, into, zip_of({"folder/": b""}), match="no files")
    refused_zip(source, into, zip_of({}), match="it has nothing")


def test_a_long_list_of_entries_is_cut(source: Path, into: Path) -> None:
    packed = zip_of({f"{number}-{'n' * 1000}": b"" for number in range(500)})
    source.write_bytes(packed)
    with pytest.raises(InvalidData, match="and 480 more") as refused:
        preparation().decompress_zip(source, into, sub_path="nothing")
    assert len(str(refused.value)) < 4000


def test_a_wrong_checksum_is_refused(source: Path, into: Path) -> None:
    packed = zip_of({"entry": b"data"}, method=zipfile.ZIP_STORED)
    refused_zip(source, into, packed.replace(b"data", b"dada"), match="CRC")
    squeezed = bytearray(gzip.compress(DATA))
    squeezed[-8] ^= 1
    source.write_bytes(bytes(squeezed))
    with pytest.raises(InvalidData, match="incorrect data check"):
        preparation().decompress_gzip(source, into)
    assert not into.exists()


@pytest.mark.parametrize("declared", [10, 3])
def test_a_wrong_declared_size_is_refused(source: Path, into: Path, declared: int) -> None:
    packed = bytearray(zip_of({"entry": b"data"}, method=zipfile.ZIP_DEFLATED))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", packed, packed.index(signature) + offset, declared)
    refused_zip(source, into, bytes(packed), match=".")


@pytest.mark.parametrize("offset", [1, 2**20, 2**31 - 1, 2**32 - 2])
def test_an_entry_that_lies_elsewhere_is_refused(source: Path, into: Path, offset: int) -> None:
    packed = bytearray(zip_of({"entry": DATA}))
    struct.pack_into("<I", packed, packed.index(b"PK\x01\x02") + 42, offset)
    refused_zip(source, into, bytes(packed), match="not a whole zip file")


def test_an_entry_without_a_name_is_an_entry(source: Path, into: Path) -> None:
    source.write_bytes(zip_of({"e": DATA}).replace(b"\x01\x00\x00\x00e", b"\x00\x00\x00\x00"))
    with pytest.raises(InvalidData):
        preparation().decompress_zip(source, into, sub_path="e")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x", DATA)
        archive.filelist[0].filename = ""
    source.write_bytes(packed.getvalue())
    with pytest.raises(InvalidData):
        preparation().decompress_zip(source, into, sub_path="e")


@pytest.mark.parametrize("cut", [1, 10, 100, 1000])
def test_a_cut_archive_is_refused(source: Path, into: Path, cut: int) -> None:
    refused_zip(source, into, zip_of({"entry": DATA})[:-cut], match=".")
    source.write_bytes(gzip.compress(DATA)[:-cut])
    with pytest.raises(InvalidData):
        preparation().decompress_gzip(source, into)
    assert not into.exists()


def test_the_number_of_entries_is_limited(source: Path, into: Path) -> None:
    source.write_bytes(zip_of({str(number): b"" for number in range(5)}))
    preparation(archive_entries_max=5).decompress_zip(source, into, sub_path="0")
    into.unlink()
    with pytest.raises(LimitExceeded) as refused:
        preparation(archive_entries_max=4).decompress_zip(source, into, sub_path="0")
    assert (refused.value.limit, refused.value.maximum) == ("archive_entries_max", 4)
    assert not into.exists()


def test_a_huge_directory_is_not_even_read(source: Path, into: Path) -> None:
    size = 3 * 1024**3
    with source.open("wb") as file:
        file.seek(size)
        file.write(struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 65535, 65535, size, 0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceeded) as refused:
        preparation().decompress_zip(source, into, sub_path=None)
    assert refused.value.limit == "archive_entries_max"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_the_unpacked_size_is_limited_whatever_is_declared(source: Path, into: Path) -> None:
    data = random.Random(1).randbytes(2 * MIB)
    for pack, unpack in (
        (gzip.compress, lambda limits: limits.decompress_gzip(source, into)),
        (lambda d: zip_of({"e": d}), lambda limits: limits.decompress_zip(source, into, sub_path="e")),
    ):
        source.write_bytes(pack(data))
        unpack(preparation(unpacked_bytes_max=2 * MIB))
        assert into.read_bytes() == data
        into.unlink()
        with pytest.raises(LimitExceeded) as refused:
            unpack(preparation(unpacked_bytes_max=2 * MIB - 1))
        assert (refused.value.limit, refused.value.place.file) == ("unpacked_bytes_max", "source")
        assert not into.exists()


def test_the_ratio_is_limited(source: Path, into: Path) -> None:
    data = bytes(20 * MIB)
    for pack, unpack in (
        (gzip.compress, lambda limits: limits.decompress_gzip(source, into)),
        (lambda d: zip_of({"e": d}), lambda limits: limits.decompress_zip(source, into, sub_path="e")),
    ):
        source.write_bytes(pack(data))
        with pytest.raises(LimitExceeded) as refused:
            unpack(preparation())
        assert refused.value.limit == "unpack_ratio_max"
        assert not into.exists()
        unpack(preparation(unpack_ratio_max=1100))
        assert into.stat().st_size == len(data)
        into.unlink()


def test_a_little_of_anything_is_allowed(source: Path, into: Path) -> None:
    source.write_bytes(gzip.compress(bytes(MIB)))
    preparation().decompress_gzip(source, into)
    assert into.read_bytes() == bytes(MIB)


def test_archives_in_archives_are_unpacked_one_level(source: Path, into: Path) -> None:
    inner = gzip.compress(DATA)
    source.write_bytes(gzip.compress(inner))
    preparation().decompress_gzip(source, into)
    assert into.read_bytes() == inner


def test_gzip_members_and_their_padding(source: Path, into: Path) -> None:
    pieces = [DATA[:1000], b"", DATA[1000:], b""]
    source.write_bytes(b"".join(gzip.compress(piece) for piece in pieces) + b"\0" * 100_000)
    preparation().decompress_gzip(source, into)
    assert into.read_bytes() == DATA
    into.unlink()
    source.write_bytes(gzip.compress(DATA) + b"\0" * 100 + gzip.compress(DATA))
    preparation().decompress_gzip(source, into)
    assert into.read_bytes() == DATA * 2


@pytest.mark.parametrize("tail", [b"x", b"\0\0x", b"\x1f", b"\x1f\x8b\x08", b"PK\x03\x04", b"\n"])
def test_what_follows_a_member_is_a_member_or_nothing(source: Path, into: Path, tail: bytes) -> None:
    source.write_bytes(gzip.compress(DATA) + tail)
    with pytest.raises(InvalidData):
        preparation().decompress_gzip(source, into)
    assert not into.exists()


def test_members_that_give_nothing_are_limited(source: Path, into: Path) -> None:
    source.write_bytes(gzip.compress(b"") * 51)
    with pytest.raises(InvalidData, match="empty members"):
        preparation(archive_entries_max=50).decompress_gzip(source, into)
    preparation(archive_entries_max=51).decompress_gzip(source, into)
    assert into.read_bytes() == b""


def test_many_small_members_are_quick_enough(source: Path, into: Path) -> None:
    source.write_bytes(gzip.compress(b"x") * 100_000)
    preparation().decompress_gzip(source, into)
    assert into.read_bytes() == b"x" * 100_000


def test_other_codings_are_no_gzip(source: Path, into: Path) -> None:
    for data in (zlib.compress(DATA), zlib.compress(DATA, wbits=-15), DATA, zip_of({"e": DATA})):
        source.write_bytes(data)
        with pytest.raises(InvalidData):
            preparation().decompress_gzip(source, into)


def test_copies_are_limited(source: Path, into: Path) -> None:
    source.write_bytes(DATA)
    preparation(source_bytes_max=len(DATA)).copy(source, into)
    assert into.read_bytes() == DATA
    into.unlink()
    with pytest.raises(LimitExceeded) as refused:
        preparation(source_bytes_max=len(DATA) - 1).copy(source, into)
    assert refused.value.limit == "source_bytes_max"
    assert not into.exists()


def test_a_file_that_grows_while_it_is_copied_is_not_taken(
    source: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_bytes(DATA)
    looks = 0
    real = os.fstat

    def grow_before_the_last_look(opened: int) -> os.stat_result:
        nonlocal looks
        looks += os.readlink(f"/proc/self/fd/{opened}") == str(source)
        if looks == 3:
            with source.open("ab") as growing:
                growing.write(b"more")
        return real(opened)

    monkeypatch.setattr(os, "fstat", grow_before_the_last_look)
    with pytest.raises(Determinate, match="changed while it was read"):
        preparation().copy(source, into)
    assert not into.exists()


@pytest.mark.parametrize("verb", ["gzip", "zip", "copy"])
def test_sources_are_regular_files_and_destinations_new(tmp_path: Path, source: Path, into: Path, verb: str) -> None:
    def run(path: Path, target: Path) -> None:
        match verb:
            case "gzip":
                preparation().decompress_gzip(path, target)
            case "zip":
                preparation().decompress_zip(path, target, sub_path=None)
            case _:
                preparation().copy(path, target)

    source.write_bytes(gzip.compress(DATA) if verb == "gzip" else zip_of({"e": DATA}))
    (tmp_path / "link").symlink_to(source)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(InvalidData):
            run(tmp_path / name, into)
    with pytest.raises(NotFound):
        run(tmp_path / "nothing", into)
    assert not into.exists()
    into.write_bytes(b"mine")
    with pytest.raises(Determinate):
        run(source, into)
    assert into.read_bytes() == b"mine"


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from odfabric.adapters.local_fs.archives import ArchiveLimits, ArchivePreparation
from odfabric.errors import Determinate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for verb in ("decompress_gzip", "copy"):
    try:
        getattr(ArchivePreparation(ArchiveLimits()), verb)(Path(sys.argv[1]), Path(sys.argv[2]))
    except Determinate as error:
        print(error)
"""


def test_a_full_disk_is_determinate_and_leaves_nothing(source: Path, into: Path) -> None:
    source.write_bytes(gzip.compress(random.Random(1).randbytes(10_000)))
    command = [sys.executable, "-c", FULL_DISK, str(source), str(into)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.splitlines() == ["out cannot be written: File too large"] * 2
    assert not into.exists()


ZIP = zip_of({"folder/": b"", "a.csv": DATA[:2000], "b.csv": b"x" * 100})
GZIP = gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:2000])


def mutations(data: bytes) -> st.SearchStrategy[bytes]:
    """The archive with some bytes changed, removed or doubled."""
    places = st.integers(0, len(data) - 1)
    changes = st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)
    cuts = st.tuples(places, st.integers(0, 40))

    def apply(change: list[tuple[int, int]], cut: tuple[int, int], how: int) -> bytes:
        changed = bytearray(data)
        for at, value in change:
            changed[at] = value
        if how == 1:
            del changed[cut[0] : cut[0] + cut[1]]
        elif how == 2:
            changed[cut[0] : cut[0]] = changed[cut[0] : cut[0] + cut[1]]
        return bytes(changed)

    return st.builds(apply, changes, cuts, st.integers(0, 2))


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    packed=st.one_of(mutations(ZIP), st.binary(max_size=300).map(lambda b: ZIP[:4] + b + ZIP[-60:])),
    sub_path=st.sampled_from([None, "a.csv", "b.csv", "*"]),
)
def test_a_mutated_zip_gives_its_bytes_or_a_refusal(
    source: Path, into: Path, packed: bytes, sub_path: str | None
) -> None:
    source.write_bytes(packed)
    into.unlink(missing_ok=True)
    try:
        preparation().decompress_zip(source, into, sub_path=sub_path)
    except (InvalidData, LimitExceeded):
        assert not into.exists()
    else:
        assert into.read_bytes() in (DATA[:2000], b"x" * 100)


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packed=mutations(GZIP))
def test_a_mutated_gzip_gives_its_bytes_or_a_refusal(source: Path, into: Path, packed: bytes) -> None:
    source.write_bytes(packed)
    into.unlink(missing_ok=True)
    try:
        preparation().decompress_gzip(source, into)
    except (InvalidData, LimitExceeded):
        assert not into.exists()
    else:
        assert into.read_bytes() == DATA[:2000]

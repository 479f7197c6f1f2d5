"""What an ObjectStore promises, as tests.

A subclass gives `objects`, new and empty for each test.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from odfabric.errors import AlreadyExists, Determinate, InvalidName, LimitExceeded, NotFound, OdfError
from odfabric.ports.datasets.object_store import KEY_CHARACTERS_MAX, PART_CHARACTERS_MAX, REF_BYTES_MAX, ObjectStore
from odfabric.testing.conformance.examples import entry_of, hash_of
from odfabric.testing.conformance.together import THREADS, outcomes_of_processes, outcomes_of_threads

DATASET = entry_of("flights").id.multibase
KEY = f"{DATASET}/data/{hash_of('object')}"
REF = f"{DATASET}/refs/head"

HOSTILE_KEYS = [
    "",
    "/",
    "//",
    "/etc/passwd",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "./a",
    "a/.",
    "a/./b",
    "a//b",
    "a/",
    ".",
    ".hidden",
    "a/.pending-1",
    ".locks/x",
    "a\\b",
    "..\\a",
    "C:\\x",
    "c:x",
    "a b",
    "a\n",
    "\na",
    "a\0b",
    "a\x7f",
    "ä",
    "a/\u202e/b",
    "\ud800",
    "~root",
    "$HOME",
    "a;b",
    "a%2fb",
    "a*",
    "-" * (PART_CHARACTERS_MAX + 1),
    "a/" * (KEY_CHARACTERS_MAX // 2) + "a",
]
GOOD_KEYS = ["a", "-", "_", "a.b", "a..b", "a/b", "A-1/b_2/c.3", "-" * PART_CHARACTERS_MAX, "a/" * 255 + "a"]


class FailingStream(io.BytesIO):
    """A stream that breaks in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(100)
        if self.tell() > 500:
            raise InterruptedUpload
        return data


class InterruptedUpload(Exception):
    """What a stream may raise: not an error of this tree."""


class ObjectStoreContract:
    """Objects: written once, whole or not at all."""

    @pytest.fixture
    def objects(self) -> ObjectStore:
        raise NotImplementedError

    def test_an_absent_object_is_nowhere(self, objects: ObjectStore, tmp_path: Path) -> None:
        assert objects.stat(KEY) is None
        assert objects.read_ref(KEY) is None
        assert list(objects.keys("")) == []
        objects.delete(KEY)
        for call in (
            lambda: objects.read_bytes(KEY, size_max=10),
            lambda: objects.read_end(KEY, bytes_max=10),
            lambda: objects.open(KEY),
            lambda: objects.materialize(KEY, tmp_path / "there"),
        ):
            with pytest.raises(NotFound):
                call()
        assert not (tmp_path / "there").exists()

    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 9000])
    def test_bytes_come_back_by_every_way(self, objects: ObjectStore, tmp_path: Path, data: bytes) -> None:
        file = tmp_path / "source"
        file.write_bytes(data)
        objects.put_bytes("by/bytes", data)
        objects.put_file("by/file", file)
        assert objects.put_stream("by/stream", io.BytesIO(data)) == len(data)
        assert file.read_bytes() == data
        for key in ("by/bytes", "by/file", "by/stream"):
            assert objects.read_bytes(key, size_max=len(data)) == data
            for bytes_max in (1, 70_000, len(data) + 1):
                assert objects.read_end(key, bytes_max=bytes_max) == data[-bytes_max:]
            with objects.open(key) as stream:
                assert stream.read() == data
                assert stream.seek(-min(8, len(data)), io.SEEK_END) == max(0, len(data) - 8)
                assert stream.read() == data[-8:]
            stat = objects.stat(key)
            assert stat is not None
            assert stat.size == len(data)
            path = tmp_path / key.replace("/", "-")
            objects.materialize(key, path)
            assert path.read_bytes() == data

    def test_the_first_write_counts(self, objects: ObjectStore, tmp_path: Path) -> None:
        file = tmp_path / "source"
        file.write_bytes(b"second")
        objects.put_bytes(KEY, b"first")
        before = objects.stat(KEY)
        objects.put_bytes(KEY, b"second")
        objects.put_file(KEY, file)
        assert objects.put_stream(KEY, io.BytesIO(b"second")) == 6
        assert objects.read_bytes(KEY, size_max=100) == b"first"
        assert objects.stat(KEY) == before

    def test_of_racing_writers_one_is_read_by_all_ever_after(self, objects: ObjectStore) -> None:
        def write(number: int) -> bytes:
            objects.put_stream(KEY, io.BytesIO(bytes([number]) * 100_000))
            return objects.read_bytes(KEY, size_max=100_000)

        seen = outcomes_of_threads(write)
        assert len({bytes(data) for data in seen if isinstance(data, bytes)}) == 1
        assert len(seen) == THREADS
        assert list(objects.keys("")) == [KEY]

    def test_a_deleted_object_can_be_written_anew(self, objects: ObjectStore) -> None:
        objects.put_bytes(KEY, b"first")
        objects.delete(KEY)
        assert objects.stat(KEY) is None
        objects.put_bytes(KEY, b"second")
        assert objects.read_bytes(KEY, size_max=100) == b"second"

    def test_more_than_asked_for_is_not_read(self, objects: ObjectStore) -> None:
        objects.put_bytes(KEY, b"12345")
        assert objects.read_bytes(KEY, size_max=5) == b"12345"
        with pytest.raises(LimitExceeded):
            objects.read_bytes(KEY, size_max=4)

    def test_a_stream_that_breaks_leaves_nothing(self, objects: ObjectStore) -> None:
        with pytest.raises(InterruptedUpload):
            objects.put_stream(KEY, FailingStream(b"x" * 10_000))
        assert objects.stat(KEY) is None
        assert list(objects.keys("")) == []
        objects.put_bytes(KEY, b"whole")
        assert objects.read_bytes(KEY, size_max=100) == b"whole"

    def test_a_source_that_is_not_there_is_an_outside_failure(self, objects: ObjectStore, tmp_path: Path) -> None:
        with pytest.raises(OdfError):
            objects.put_file(KEY, tmp_path / "nothing")
        assert objects.stat(KEY) is None

    def test_a_file_that_is_there_is_not_replaced(self, objects: ObjectStore, tmp_path: Path) -> None:
        objects.put_bytes(KEY, b"data")
        path = tmp_path / "taken"
        path.write_bytes(b"mine")
        with pytest.raises(AlreadyExists):
            objects.materialize(KEY, path)
        assert path.read_bytes() == b"mine"

    def test_where_no_file_can_be_made_nothing_happened(self, objects: ObjectStore, tmp_path: Path) -> None:
        objects.put_bytes(KEY, b"data")
        with pytest.raises(Determinate):
            objects.materialize(KEY, tmp_path / "no-such-folder" / "file")

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_what_is_not_a_key_is_refused_everywhere(self, objects: ObjectStore, tmp_path: Path, key: str) -> None:
        file = tmp_path / "source"
        file.write_bytes(b"data")
        calls: list[Callable[[], object]] = [
            lambda: objects.put_bytes(key, b"data"),
            lambda: objects.put_file(key, file),
            lambda: objects.put_stream(key, io.BytesIO(b"data")),
            lambda: objects.read_bytes(key, size_max=1),
            lambda: objects.read_end(key, bytes_max=1),
            lambda: objects.open(key),
            lambda: objects.stat(key),
            lambda: objects.materialize(key, tmp_path / "out"),
            lambda: objects.delete(key),
            lambda: objects.write_ref(key, "text"),
            lambda: objects.read_ref(key),
            lambda: objects.exclusive(key).__enter__(),
        ]
        for call in calls:
            with pytest.raises(InvalidName):
                call()
        assert list(objects.keys("")) == []

    @pytest.mark.parametrize("key", GOOD_KEYS)
    def test_what_is_a_key_is_taken(self, objects: ObjectStore, key: str) -> None:
        objects.put_bytes(key, b"data")
        assert objects.read_bytes(key, size_max=10) == b"data"
        assert list(objects.keys("")) == [key]

    def test_a_folder_of_keys_is_no_object(self, objects: ObjectStore, tmp_path: Path) -> None:
        objects.put_bytes("a/b/c", b"data")
        for key in ("a", "a/b", "a/b/c/d"):
            assert objects.stat(key) is None
            assert objects.read_ref(key) is None
            with pytest.raises(NotFound):
                objects.open(key)
            with pytest.raises(NotFound):
                objects.materialize(key, tmp_path / "out")
            objects.delete(key)
        assert list(objects.keys("")) == ["a/b/c"]


class ListingContract:
    """Keys in order."""

    @pytest.fixture
    def objects(self) -> ObjectStore:
        raise NotImplementedError

    def test_keys_are_in_order_of_their_texts(self, objects: ObjectStore) -> None:
        keys = ["a/b", "a-b", "a.b", "a0", "a_b", "A", "a/a/z", "a/a-", "b/c", "a/a0", "_", "-", "Z/z", "a/a/a/a"]
        for key in keys:
            objects.put_bytes(key, b"")
        assert list(objects.keys("")) == sorted(keys)

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("a/", ["a/b/1", "a/b/2", "a/bc"]),
            ("a/b", ["a/b/1", "a/b/2", "a/bc"]),
            ("a/b/", ["a/b/1", "a/b/2"]),
            ("a/b/1", ["a/b/1"]),
            ("a/b/1/", []),
            ("a", ["a/b/1", "a/b/2", "a/bc", "ab"]),
            ("c", []),
            ("a/c/d", []),
        ],
    )
    def test_only_keys_that_begin_so(self, objects: ObjectStore, prefix: str, found: list[str]) -> None:
        for key in ["a/b/1", "a/b/2", "a/bc", "ab", "b/a"]:
            objects.put_bytes(key, b"")
        assert list(objects.keys(prefix)) == found

    @pytest.mark.parametrize("prefix", ["/", "..", "../", "a//", "a/../", ".locks", ".", "a/.pend", "ä", "a\0"])
    def test_what_begins_no_key_is_refused(self, objects: ObjectStore, prefix: str) -> None:
        with pytest.raises(InvalidName):
            list(objects.keys(prefix))

    def test_a_listing_bears_changes_meanwhile(self, objects: ObjectStore) -> None:
        keys = [f"{folder}/{number}" for folder in "abc" for number in range(5)]
        for key in keys:
            objects.put_bytes(key, b"")
        seen = []
        for key in objects.keys(""):
            seen.append(key)
            objects.delete(key)
            objects.delete("b/4")
        assert set(keys) - {"b/4"} <= set(seen) <= set(keys)
        assert list(objects.keys("")) == []


class RefsContract:
    """Refs and locks."""

    @pytest.fixture
    def objects(self) -> ObjectStore:
        raise NotImplementedError

    def test_a_ref_is_replaced(self, objects: ObjectStore) -> None:
        assert objects.read_ref(REF) is None
        for text in ("one", "ünì", "", "x" * REF_BYTES_MAX):
            objects.write_ref(REF, text)
            assert objects.read_ref(REF) == text
        assert list(objects.keys("")) == [REF]
        objects.delete(REF)
        assert objects.read_ref(REF) is None

    def test_a_long_ref_is_refused(self, objects: ObjectStore) -> None:
        objects.write_ref(REF, "short")
        with pytest.raises(LimitExceeded):
            objects.write_ref(REF, "ü" * (REF_BYTES_MAX // 2) + "x")
        assert objects.read_ref(REF) == "short"
        objects.put_bytes(KEY, b"x" * (REF_BYTES_MAX + 1))
        with pytest.raises(LimitExceeded):
            objects.read_ref(KEY)

    def test_who_has_opened_a_ref_reads_it_as_it_was(self, objects: ObjectStore) -> None:
        objects.write_ref(REF, "old text")
        with objects.open(REF) as opened:
            objects.write_ref(REF, "new")
            assert opened.read() == b"old text"

    def test_a_ref_is_always_one_of_the_texts_written(self, objects: ObjectStore) -> None:
        objects.write_ref(REF, "0" * 1000)

        def act(number: int) -> set[str | None]:
            if number < 4:
                for _ in range(20):
                    objects.write_ref(REF, str(number) * 1000)
                return set()
            return {objects.read_ref(REF) for _ in range(40)}

        seen = outcomes_of_threads(act, count=8)
        texts = {text for outcome in seen if isinstance(outcome, set) for text in outcome}
        assert len(seen) == 8
        assert texts <= {str(number) * 1000 for number in range(4)}

    def test_a_ref_is_replaced_only_if_it_is_as_expected(self, objects: ObjectStore) -> None:
        assert not objects.replace_ref(REF, "two", expected="one")
        assert objects.read_ref(REF) is None
        assert objects.replace_ref(REF, "one", expected=None)
        assert not objects.replace_ref(REF, "two", expected=None)
        assert objects.replace_ref(REF, "two", expected="one")
        assert not objects.replace_ref(REF, "three", expected="one")
        assert objects.read_ref(REF) == "two"
        objects.write_ref(REF, "from elsewhere")
        assert not objects.replace_ref(REF, "three", expected="two")
        assert objects.replace_ref(REF, "three", expected="from elsewhere")
        objects.delete(REF)
        assert not objects.replace_ref(REF, "four", expected="three")
        assert objects.replace_ref(REF, "four", expected=None)
        with pytest.raises(LimitExceeded):
            objects.replace_ref(REF, "x" * (REF_BYTES_MAX + 1), expected="four")

    def test_of_those_that_expect_the_same_one_wins(self, objects: ObjectStore) -> None:
        before: str | None = None

        def replace(thread: int) -> str:
            text = f"{before}/{thread}"
            return text if objects.replace_ref(REF, text, expected=before) else ""

        for _ in range(5):
            won = [outcome for outcome in outcomes_of_threads(replace) if outcome]
            before = objects.read_ref(REF)
            assert won == [before]

    def test_a_lock_is_held_by_one(self, objects: ObjectStore) -> None:
        objects.write_ref(REF, "0")

        def add_one(_: int) -> None:
            with objects.exclusive(REF):
                objects.write_ref(REF, str(int(objects.read_ref(REF) or "") + 1))

        outcomes_of_threads(add_one)
        assert objects.read_ref(REF) == str(THREADS)

    def test_locks_of_other_keys_do_not_matter(self, objects: ObjectStore) -> None:
        with ExitStack() as held:
            for number in range(50):
                held.enter_context(objects.exclusive(f"{DATASET}/refs/head-{number}"))
        with objects.exclusive(REF):
            pass

    def test_a_lock_is_freed_by_failure_too(self, objects: ObjectStore) -> None:
        with pytest.raises(InterruptedUpload), objects.exclusive(REF):
            raise InterruptedUpload
        with objects.exclusive(REF):
            pass

    def test_locks_leave_no_keys(self, objects: ObjectStore) -> None:
        with objects.exclusive(REF):
            assert list(objects.keys("")) == []


class ImpatientLockContract:
    """A store of which the patience is about a tenth of a second."""

    @pytest.fixture
    def objects(self) -> ObjectStore:
        raise NotImplementedError

    def test_who_waits_too_long_is_told_so(self, objects: ObjectStore) -> None:
        with objects.exclusive(REF), pytest.raises(Determinate), objects.exclusive(REF):
            pass
        with objects.exclusive(REF):
            pass


class ObjectStoreProcessContract:
    """Between processes. A subclass gives `open_objects`, which can be pickled."""

    @pytest.fixture
    def open_objects(self) -> Callable[[], ObjectStore]:
        raise NotImplementedError

    def test_racing_processes_agree_on_the_object(self, open_objects: Callable[[], ObjectStore]) -> None:
        assert len(set(outcomes_of_processes(open_objects, _write_once))) == 1
        assert list(open_objects().keys("")) == [KEY]

    def test_a_lock_spans_processes(self, open_objects: Callable[[], ObjectStore]) -> None:
        objects = open_objects()
        objects.write_ref(REF, "0")
        outcomes_of_processes(open_objects, _add_often)
        assert objects.read_ref(REF) == "100"


def _write_once(objects: ObjectStore, number: int) -> str:
    objects.put_bytes(KEY, bytes([number]) * 100_000)
    return objects.read_bytes(KEY, size_max=100_000).hex()[:2]


def _add_often(objects: ObjectStore, number: int) -> str:
    for _ in range(25):
        with objects.exclusive(REF):
            objects.write_ref(REF, str(int(objects.read_ref(REF) or "") + 1))
    return "done"

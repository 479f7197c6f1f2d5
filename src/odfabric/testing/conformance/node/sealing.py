"""What Sealing, KeyRotation and SealedStore promise, as tests.

A subclass of the first gives `sealing` and `another`, which makes what another process of the same node has. One of the second gives `store`,
and `put`, which stores bytes and returns the key of their row.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Protocol

import pytest

from odfabric.errors import Corrupt, Determinate
from odfabric.ports.node.sealing import KeyRotation, SealedStore, Sealing, renewed
from odfabric.testing.conformance.together import outcomes_of_threads

DEADLINE_S = 30.0
CONTEXT = b"subscription:a1"


class NodeSealing(Sealing, KeyRotation, Protocol):
    """Both ports over the same keys."""


def nothing() -> None:
    """A last look that finds nothing to do."""


def fail() -> None:
    """A last look that comes to no end."""
    raise Determinate("the database is away")


class SealingContract:
    """Sealing and KeyRotation. `impatient` is like `another` and waits for nothing."""

    @pytest.fixture
    def sealing(self) -> NodeSealing:
        raise NotImplementedError

    @pytest.fixture
    def another(self) -> Callable[[], NodeSealing]:
        raise NotImplementedError

    @pytest.fixture
    def impatient(self) -> NodeSealing:
        raise NotImplementedError

    def test_what_one_process_sealed_any_other_opens(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        for secret in (b"", b"\x00", b"secret" * 1000):
            sealed = sealing.seal(secret, context=CONTEXT)
            assert another().open(sealed, context=CONTEXT) == sealing.open(sealed, context=CONTEXT) == secret
            assert sealed.startswith(sealing.mark())
            assert secret not in sealed or not secret.strip(b"\x00")

    def test_equal_secrets_are_sealed_differently(self, sealing: NodeSealing) -> None:
        assert len({sealing.seal(b"secret", context=CONTEXT) for _ in range(100)}) == 100

    def test_another_context_or_other_bytes_are_corrupt(self, sealing: NodeSealing) -> None:
        sealed = sealing.seal(b"secret", context=CONTEXT)
        changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
        for data, context in [(sealed, b"subscription:a2"), (changed, CONTEXT), (b"secret", CONTEXT)]:
            with pytest.raises(Corrupt):
                sealing.open(data, context=context)

    def test_a_rotation_changes_the_key_for_all_processes(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        running = another()
        before, old = running.mark(), running.seal(b"old", context=CONTEXT)
        assert sealing.begin()
        assert running.mark() == sealing.mark() != before
        assert running.open(old, context=CONTEXT) == another().open(old, context=CONTEXT) == b"old"
        new = running.seal(b"new", context=CONTEXT)
        assert sealing.drop_old(nothing) == 1
        assert another().mark() == sealing.mark()
        assert another().open(new, context=CONTEXT) == b"new"

    def test_a_rotation_that_was_interrupted_goes_on(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        assert sealing.begin()
        mark = sealing.mark()
        assert not another().begin()
        assert another().mark() == mark
        assert another().drop_old(nothing) == 1
        assert sealing.drop_old(nothing) == 0
        assert sealing.begin()
        assert sealing.mark() != mark

    def test_a_key_that_was_dropped_opens_only_where_it_was_seen(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        running = another()
        old = sealing.seal(b"old", context=CONTEXT)
        with running.kept():
            pass
        sealing.begin()
        sealing.drop_old(nothing)
        assert running.open(old, context=CONTEXT) == b"old"
        with pytest.raises(Corrupt, match="does not have"):
            another().open(old, context=CONTEXT)
        with running.kept():
            new = renewed(running, old, context=CONTEXT)
        assert another().open(new, context=CONTEXT) == b"old"
        assert renewed(running, new, context=CONTEXT) == new

    def test_a_last_look_that_fails_keeps_all_keys(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        old = sealing.seal(b"old", context=CONTEXT)
        sealing.begin()
        with pytest.raises(Determinate, match="away"):
            sealing.drop_old(fail)
        assert another().open(old, context=CONTEXT) == b"old"
        assert another().drop_old(nothing) == 1

    def test_keys_that_are_kept_are_not_changed(self, sealing: NodeSealing, impatient: NodeSealing) -> None:
        mark = sealing.mark()
        with sealing.kept(), impatient.kept():
            with pytest.raises(Determinate, match="in use"):
                impatient.begin()
            assert impatient.mark() == sealing.mark() == mark
        assert impatient.begin()
        with sealing.kept(), pytest.raises(Determinate, match="in use"):
            impatient.drop_old(lambda: pytest.fail("somebody is within"))
        assert impatient.drop_old(nothing) == 1

    def test_during_a_last_look_nobody_is_within(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing], impatient: NodeSealing
    ) -> None:
        sealing.begin()
        came = Event()
        waiting = another()

        def come() -> None:
            with waiting.kept():
                came.set()

        def look() -> None:
            with pytest.raises(Determinate, match="in use"), impatient.kept():
                pass
            thread.start()
            assert sealing.open(sealing.seal(b"x", context=CONTEXT), context=CONTEXT) == b"x"
            assert not came.is_set()

        thread = Thread(target=come, daemon=True)
        sealing.drop_old(look)
        assert came.wait(DEADLINE_S)
        thread.join(DEADLINE_S)

    def test_of_racing_rotations_one_makes_the_key(
        self, sealing: NodeSealing, another: Callable[[], NodeSealing]
    ) -> None:
        mark = sealing.mark()
        made = outcomes_of_threads(lambda _: another().begin())
        assert sorted(map(str, made)) == ["False"] * (len(made) - 1) + ["True"]
        assert sealing.mark() != mark
        assert sealing.drop_old(nothing) == 1


class SealedStoreContract:
    """SealedStore; what `put` stores begins with what it is given."""

    @pytest.fixture
    def store(self) -> SealedStore:
        raise NotImplementedError

    @pytest.fixture
    def put(self) -> Callable[[bytes], str]:
        raise NotImplementedError

    def test_rows_come_in_the_order_of_their_keys_from_any_of_them(
        self, store: SealedStore, put: Callable[[bytes], str]
    ) -> None:
        put_data = {put(bytes([number]) * 69): bytes([number]) * 69 for number in (1, 2, 3, 4, 5)}
        found = list(store.rows(unlike=b"none", after=None, limit=10))
        assert {row.key: row.data for row in found} == put_data
        assert len({row.context for row in found}) == 5
        for at, row in enumerate(found):
            assert list(store.rows(unlike=b"none", after=row.key, limit=2)) == found[at + 1 : at + 3]
        assert list(store.rows(unlike=b"none", after=None, limit=2)) == found[:2]

    def test_rows_that_begin_as_said_are_left_out(self, store: SealedStore, put: Callable[[bytes], str]) -> None:
        put(b"\x00\xff" * 40)
        other = put(b"\x00\xfe" * 40)
        assert [row.key for row in store.rows(unlike=b"\x00\xff", after=None, limit=10)] == [other]
        assert list(store.rows(unlike=b"\x00", after=None, limit=10)) == []

    def test_data_are_replaced_where_they_are_still_the_same(
        self, store: SealedStore, put: Callable[[bytes], str]
    ) -> None:
        for number in (1, 2, 3):
            put(bytes([number]) * 69)
        one, two, three = store.rows(unlike=b"none", after=None, limit=10)
        assert store.replace([]) == 0
        assert store.replace([(one, b"new" * 30)]) == 1
        assert store.replace([(one, b"lost" * 30), (two, b"newer" * 30)]) == 1
        data = [row.data for row in store.rows(unlike=b"none", after=None, limit=10)]
        assert data == [b"new" * 30, b"newer" * 30, three.data]

    def test_what_is_sealed_is_not_plain(self, store: SealedStore) -> None:
        assert not store.is_plain(bytes(69))
        assert store.may_be_plain == store.is_plain(bytes(32))

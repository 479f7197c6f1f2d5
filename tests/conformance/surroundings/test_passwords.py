"""Passwords: Argon2id and its stand-in for tests keep one contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pytest

from odfabric.adapters.argon2.passwords import Argon2Passwords
from odfabric.adapters.memory.people.passwords import QuickPasswords
from odfabric.errors import LimitExceeded
from odfabric.ports.people.passwords import Passwords
from odfabric.testing.conformance.people.passwords import BYTES_MAX, PASSWORD, PasswordsContract
from tests.support.waiting import wait_until

PATIENCE_S = 20.0


def argon2(*, memory_mib: int = 1, at_once: int = 2, waiting: int = 4) -> Argon2Passwords:
    return Argon2Passwords(
        memory_mib=memory_mib,
        passes=2,
        hashes_at_once_max=at_once,
        hashes_waiting_max=waiting,
        bytes_max=BYTES_MAX,
    )


class TestQuickPasswords(PasswordsContract):
    @pytest.fixture
    def passwords(self) -> Passwords:
        return QuickPasswords(bytes_max=BYTES_MAX)

    @pytest.fixture
    def others(self) -> Passwords:
        return QuickPasswords(cost=2, bytes_max=BYTES_MAX)

    def test_nobody_takes_the_same_work(self) -> None:
        passwords = QuickPasswords()
        stored = passwords.hash(PASSWORD)
        for each in (stored, None):
            before = passwords.hashes
            passwords.verify("wrong", each)
            assert passwords.hashes == before + 1


class TestArgon2Passwords(PasswordsContract):
    @pytest.fixture
    def passwords(self) -> Passwords:
        return argon2()

    @pytest.fixture
    def others(self) -> Passwords:
        return argon2(memory_mib=2)

    def test_parameters_are_those_given(self) -> None:
        assert argon2(memory_mib=3).hash(PASSWORD).startswith("$argon2id$v=19$m=3072,t=2,p=1$")

    def test_nobody_takes_the_same_work(self) -> None:
        """Processor time of this thread, so that other processes do not count."""
        passwords = argon2(memory_mib=16)
        stored = passwords.hash(PASSWORD)

        def work_s(verify: Callable[[], bool]) -> float:
            before = time.thread_time()
            assert not verify()
            return time.thread_time() - before

        wrong, nobody = (
            median(work_s(lambda each=each: passwords.verify("wrong", each)) for _ in range(9))  # type: ignore[misc]
            for each in (stored, None)
        )
        assert 0.5 < wrong / nobody < 2.0


class TestHashesAtOnce:
    def test_at_the_limit_callers_wait_and_are_served(self) -> None:
        passwords = argon2(at_once=1, waiting=2)
        with ThreadPoolExecutor(2) as threads:
            with passwords.turns.taken():
                waiting = [threads.submit(passwords.hash, PASSWORD), threads.submit(passwords.verify, "wrong", None)]
                assert not any(each.done() for each in waiting)
            assert waiting[0].result(PATIENCE_S).startswith("$argon2id$")
            assert waiting[1].result(PATIENCE_S) is False

    @pytest.mark.parametrize("waiting_max", [0, 1, 3])
    def test_beyond_it_they_are_refused_with_a_time(self, waiting_max: int) -> None:
        passwords = argon2(at_once=1, waiting=waiting_max)
        refusals: list[LimitExceeded] = []

        def ask() -> None:
            try:
                passwords.verify(PASSWORD, None)
            except LimitExceeded as error:
                refusals.append(error)

        asking = [threading.Thread(target=ask) for _ in range(waiting_max + 2)]
        with passwords.turns.taken():
            for thread in asking:
                thread.start()
            wait_until(lambda: len(refusals) == 2, what="the refusals")
            assert sum(thread.is_alive() for thread in asking) == waiting_max
        for thread in asking:
            thread.join(PATIENCE_S)
        assert {(each.limit, each.maximum) for each in refusals} == {("password_hashes_waiting_max", waiting_max)}
        assert all(each.retry_after_s for each in refusals)
        assert len(refusals) == 2

    def test_no_more_are_inside_than_may_be(self) -> None:
        passwords = argon2(at_once=2, waiting=30)
        inside, most, lock = 0, 0, threading.Lock()

        def enter(_: int) -> None:
            nonlocal inside, most
            with passwords.turns.taken():
                with lock:
                    inside += 1
                    most = max(most, inside)
                passwords_work()
                with lock:
                    inside -= 1

        def passwords_work() -> None:
            argon2().hash(PASSWORD)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(enter, range(30)))
        assert most == 2

    def test_a_turn_is_given_back_after_a_failure(self) -> None:
        passwords = argon2(at_once=1, waiting=0)
        for _ in range(3):
            with pytest.raises(Exception, match="stored password hash"):
                passwords.verify(PASSWORD, "$argon2id$")
        assert passwords.hash(PASSWORD)

"""Rotation of the node's key loses nothing wherever it is interrupted.

Every secret can be opened at every moment, and a repetition completes the rotation.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.adapters.memory.node.sealing import MemorySealedStore, MemorySealing
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import Corrupt, External
from odfabric.ports.node.sealing import webhook_secret_context
from odfabric.usecases.maintenance.rotate_key import RotatedKey, has_plain, rotate_key, seal_plain

SECRETS = {f"s{number}": f"secret {number} of 24 bytes and more".encode() for number in range(5)}
KEYS = {f"k{number}": bytes([number]) * 32 for number in range(3)}


@dataclass
class Secrets:
    """Two stores and the keys of a node; each look is that of a new process."""

    first: MemorySealing = field(default_factory=lambda: MemorySealing(SeededEntropy(1)))
    seeds: Iterator[int] = field(default_factory=lambda: iter(range(100, 100_000)))

    def __post_init__(self) -> None:
        self.hooks = MemorySealedStore("hooks", context=webhook_secret_context, plain_bytes_max=64)
        self.keys = MemorySealedStore("keys", context=str.encode)
        self.stores = (self.hooks, self.keys)
        seal = self.first.seal
        self.hooks.put({name: seal(data, context=webhook_secret_context(name)) for name, data in SECRETS.items()})
        self.keys.put({name: seal(data, context=name.encode()) for name, data in KEYS.items()})

    def process(self) -> MemorySealing:
        return MemorySealing(SeededEntropy(next(self.seeds)), keys=self.first.keys, wait_s_max=5.0)

    def rotate(self, plan: FaultPlan | None = None, *, portion_max: int = 2) -> RotatedKey:
        plan, process = plan or FaultPlan(), self.process()
        stores = [plan.sealed_store(store) for store in self.stores]
        return rotate_key(stores, sealing=process, rotation=plan.node_key(process), portion_max=portion_max)

    def opened(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """What a new process reads."""
        process = self.process()

        def secret(store: MemorySealedStore, name: str, data: bytes, context: bytes) -> bytes:
            return data if store.is_plain(data) else process.open(data, context=context)

        return (
            {
                name: secret(self.hooks, name, data, webhook_secret_context(name))
                for name, data in self.hooks.data.items()
            },
            {name: secret(self.keys, name, data, name.encode()) for name, data in self.keys.data.items()},
        )


def test_everything_is_sealed_with_a_new_key_and_the_old_one_goes() -> None:
    secrets = Secrets()
    (old,) = secrets.first.keys.keys
    done = secrets.rotate()
    assert done.to_value() == {
        "ok": True,
        "resumed": False,
        "sealed": {"hooks": 5, "keys": 3},
        "keysDropped": 1,
        "unopened": [],
    }
    (new,) = secrets.first.keys.keys
    assert new != old
    assert all(data.startswith(secrets.process().mark()) for store in secrets.stores for data in store.data.values())
    assert secrets.opened() == (SECRETS, KEYS)


@pytest.mark.parametrize("portion_max", [1, 2, 3, 5, 6, 100])
def test_portions_of_any_size_leave_nothing_out(portion_max: int) -> None:
    secrets, plan = Secrets(), FaultPlan()
    assert secrets.rotate(plan, portion_max=portion_max).sealed == {"hooks": 5, "keys": 3}
    assert secrets.opened() == (SECRETS, KEYS)
    replaced = sum(call.name == "sealed.replace" for call in plan.calls)
    assert replaced == -(-5 // portion_max) + -(-3 // portion_max)


def test_the_listener_is_told_how_far_it_is() -> None:
    secrets, told = Secrets(), []
    process = secrets.process()
    rotate_key(
        secrets.stores,
        sealing=process,
        rotation=process,
        portion_max=2,
        listener=lambda name, count: told.append((name, count)),
    )
    assert told == [("hooks", 2), ("hooks", 4), ("hooks", 5), ("keys", 2), ("keys", 3)]


def test_secrets_in_the_clear_are_sealed_on_the_way() -> None:
    secrets = Secrets()
    secrets.hooks.put({"s2": SECRETS["s2"]})
    assert secrets.rotate().sealed == {"hooks": 5, "keys": 3}
    assert secrets.opened() == (SECRETS, KEYS)
    assert not has_plain(secrets.stores, portion_max=2)


def test_what_cannot_be_opened_is_told_left_alone_and_holds_no_key_back() -> None:
    secrets = Secrets()
    foreign = MemorySealing(SeededEntropy(99)).seal(SECRETS["s1"], context=webhook_secret_context("s1"))
    damaged = secrets.hooks.data["s3"][:-1] + b"!"
    moved = secrets.keys.data["k0"]
    secrets.hooks.put({"s1": foreign, "s3": damaged})
    secrets.keys.put({"k2": moved})
    done = secrets.rotate(portion_max=1)
    assert (done.sealed, done.keys_dropped) == ({"hooks": 3, "keys": 2}, 1)
    assert list(done.unopened) == [("hooks", "s1"), ("hooks", "s3"), ("keys", "k2")]
    assert (secrets.hooks.data["s1"], secrets.hooks.data["s3"], secrets.keys.data["k2"]) == (foreign, damaged, moved)
    value = done.to_value()
    assert value["ok"] is False
    first, *_ = value["unopened"]  # type: ignore[misc]
    assert (first["kind"], first["of"]) == ("hooks", "s1")  # type: ignore[index]
    assert "does not have" in first["message"]  # type: ignore[index]
    again = secrets.rotate()
    assert (again.resumed, again.keys_dropped, len(again.unopened)) == (False, 1, 3)


def calls_of_a_rotation() -> list[tuple[int, Fault, str]]:
    plan = FaultPlan()
    Secrets().rotate(plan)
    return [(number, fault, call.name) for number, call in enumerate(plan.calls) for fault in call.faults]


def test_a_rotation_has_the_calls_that_are_interrupted_below() -> None:
    names = [name for _, fault, name in calls_of_a_rotation() if fault is Fault.BEFORE]
    assert {name: names.count(name) for name in names} == {
        "node_key.begin": 1,
        "sealed.rows": 9,  # three portions and two, each store to its end, twice
        "sealed.replace": 5,
        "node_key.drop_old": 1,
    }


@pytest.mark.parametrize(("number", "fault", "name"), calls_of_a_rotation())
def test_interrupted_at_any_call_nothing_is_lost_and_a_repetition_completes_it(
    number: int, fault: Fault, name: str
) -> None:
    secrets = Secrets()
    (old,) = secrets.first.keys.keys
    with pytest.raises(External):
        secrets.rotate(FaultPlan.single(number, fault))
    assert secrets.opened() == (SECRETS, KEYS)
    begun = len(secrets.first.keys.keys) > 1
    done = secrets.rotate()
    assert secrets.opened() == (SECRETS, KEYS)
    assert done.resumed == begun
    assert len(secrets.first.keys.keys) == 1
    assert old not in secrets.first.keys.keys
    assert all(data.startswith(secrets.process().mark()) for store in secrets.stores for data in store.data.values())


@given(st.integers(0, 1_000_000), st.integers(1, 4))
def test_many_interruptions_lose_nothing(seed: int, portion_max: int) -> None:
    secrets = Secrets()
    for attempt in range(40):
        with suppress(External):
            secrets.rotate(FaultPlan.seeded(seed + attempt, rate=0.1), portion_max=portion_max)
        assert secrets.opened() == (SECRETS, KEYS)


def test_secrets_that_are_stored_meanwhile_open_afterwards() -> None:
    """What is written within `kept` is never under a key that goes."""
    secrets, stop = Secrets(), threading.Event()
    written: dict[str, bytes] = {}

    def write() -> None:
        process = secrets.process()
        for number in itertools.count():
            name, secret = f"w{number % 10}", f"{number}".encode() * 30
            with process.kept():
                secrets.hooks.put({name: process.seal(secret, context=webhook_secret_context(name))})
            written[name] = secret
            if stop.is_set():
                break

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for _ in range(50):
        secrets.rotate(portion_max=3)
    stop.set()
    thread.join(30)
    assert len(written) == 10
    assert secrets.opened() == (SECRETS | written, KEYS)


def test_plain_secrets_are_sealed_and_others_left_as_they_are() -> None:
    secrets = Secrets()
    before = secrets.hooks.data, secrets.keys.data
    assert not has_plain(secrets.stores, portion_max=2)
    assert seal_plain(secrets.stores, sealing=secrets.process(), portion_max=2) == 0
    assert (secrets.hooks.data, secrets.keys.data) == before
    # Rows that are neither plain nor sealed lie before and between them.
    secrets.hooks.put({"a": b"\x01" * 69, "s1": SECRETS["s1"], "s4": SECRETS["s4"], "s2": b"\x01" * 69})
    assert has_plain(secrets.stores, portion_max=2)
    assert seal_plain(secrets.stores, sealing=secrets.process(), portion_max=1) == 2
    assert not has_plain(secrets.stores, portion_max=2)
    assert (secrets.hooks.data["a"], secrets.hooks.data["s2"]) == (b"\x01" * 69, b"\x01" * 69)
    with pytest.raises(Corrupt):
        secrets.opened()
    secrets.hooks.put({"a": SECRETS["s2"], "s2": SECRETS["s2"]})
    assert secrets.opened() == (SECRETS | {"a": SECRETS["s2"]}, KEYS)


def test_sealing_of_plain_secrets_may_be_interrupted_at_any_call() -> None:
    def attempt(plan: FaultPlan) -> Secrets:
        secrets = Secrets()
        secrets.hooks.put(SECRETS)
        stores = [plan.sealed_store(store) for store in secrets.stores]
        try:
            seal_plain(stores, sealing=secrets.process(), portion_max=2)
        except External:
            assert secrets.opened() == (SECRETS, KEYS)
            seal_plain(secrets.stores, sealing=secrets.process(), portion_max=2)
        return secrets

    watching = FaultPlan()
    attempt(watching)
    for number, call in enumerate(watching.calls):
        for fault in call.faults:
            secrets = attempt(FaultPlan.single(number, fault))
            assert not has_plain(secrets.stores, portion_max=2)
            assert secrets.opened() == (SECRETS, KEYS)

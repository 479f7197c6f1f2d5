"""When questions to the JVM are not asked any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME

from odfabric.errors import Determinate
from odfabric_engine_spark.spark.calls.call import StopSignal
from odfabric_engine_spark.spark.calls.interruptible_jvm_calls import interruptible, make_interruptible


@pytest.fixture
def gateway() -> Any:
    found = SimpleNamespace(_gateway_client=SimpleNamespace(send_command=lambda command: f"answer to {command}"))
    make_interruptible(found)  # type: ignore[arg-type]
    return found


ANSWER = "answer to c\nquestion"


def ask(gateway: Any, command: str = "c\nquestion") -> str:
    return str(gateway._gateway_client.send_command(command))


def stopped() -> StopSignal:
    stop = StopSignal()
    stop.set(Determinate("over"))
    return stop


def end_of(work: Callable[[], object], stop: StopSignal) -> str | None:
    """What a call fails with that does some work."""
    try:
        with interruptible(stop):
            work()
    except Determinate as error:
        return error.message
    return None


def test_only_the_thread_of_a_call_that_must_end_is_interrupted(gateway: Any) -> None:
    elsewhere: list[str] = []

    def ask_elsewhere() -> None:
        other = threading.Thread(target=lambda: elsewhere.append(ask(gateway)))
        other.start()
        other.join()

    assert end_of(lambda: ask(gateway), StopSignal()) is None
    assert end_of(ask_elsewhere, stopped()) is None
    assert elsewhere == [ANSWER]
    assert end_of(lambda: ask(gateway), stopped()) == "over"
    assert ask(gateway) == ANSWER, "the call has ended"


def test_a_call_that_is_interrupted_may_tidy_up(gateway: Any) -> None:
    tidied: list[str] = []

    def work() -> None:
        try:
            ask(gateway)
        finally:
            tidied.append(ask(gateway))

    assert end_of(work, stopped()) == "over"
    assert tidied == [ANSWER]


def test_what_is_let_go_of_interrupts_nothing(gateway: Any) -> None:
    assert end_of(lambda: ask(gateway, f"{MEMORY_COMMAND_NAME}d\no7\ne\n"), stopped()) is None


def test_whoever_swallows_the_interruption_has_no_result(gateway: Any) -> None:
    def work() -> None:
        with suppress(Determinate):
            ask(gateway)

    assert end_of(work, stopped()) == "over"

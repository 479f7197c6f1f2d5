"""What a test wants to happen around calls of ports, or to know of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odfabric.adapters.unreliable.interception import Interceptor

T = TypeVar("T")


class Around(Interceptor):
    """Calls of the ports by name, and what is done before or after them; nothing until something is set."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        """See the base."""
        self.before.get(call, _nothing)()
        result = act()
        self.after.get(call, _nothing)()
        return result


class Calls(Interceptor):
    """Names of calls of ports, but of the audit, which is written after the answer."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        if call != "audit.refuse":
            self.seen.append(call)
        return act()


def _nothing() -> None:
    return

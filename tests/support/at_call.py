"""What happens at port calls: another thread, process or node, or a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.errors import External

T = TypeVar("T")


class AtCall(Interceptor):
    """Lets `act` happen once, directly before or after a call of that name."""

    def __init__(self, when: str, name: str, act: Callable[[], object] | None = None) -> None:
        self.when = when
        self.name = name
        self.act = act

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        happening, self.act = (self.act, None) if call == self.name else (None, self.act)
        if happening is not None and self.when == "before":
            happening()
        result = act()
        if happening is not None and self.when == "after":
            happening()
        return result


class Meeting(Interceptor):
    """Does something before or after one of the calls that go through it."""

    def __init__(self, at: int, act: Callable[[], object], *, after: bool) -> None:
        self.calls: list[str] = []
        self.raised: External | None = None
        self._at, self._act, self._after = at, act, after

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        self.calls.append(call)
        here = len(self.calls) - 1 == self._at
        if here and not self._after:
            self._meet()
        result = act()
        if here and self._after:
            self._meet()
        return result

    def _meet(self) -> None:
        try:
            self._act()
        except External as error:
            self.raised = error


class Counting(Interceptor):
    """Counts calls by name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        self.calls[call] += 1
        return act()

"""Something that happens at one call of a port: what another thread, process or node does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odfabric.adapters.unreliable.interception import Interceptor

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

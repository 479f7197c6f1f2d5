"""Surroundings of a node as a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odfabric.errors import Determinate
from odfabric.model.node.surroundings import DatabaseState, DiskState, EngineMachine, FileState, RedisState

S = TypeVar("S", DatabaseState, RedisState, EngineMachine)
T = TypeVar("T")


ROOMY = DiskState(free_bytes=1 << 40, all_bytes=1 << 40, free_inodes=1 << 20, inodes=1 << 20)


@dataclass(slots=True)
class MemoryWorkspaceProbe:
    """A WorkspaceProbe."""

    state: FileState = field(default_factory=lambda: FileState("workspace", 0o700, is_own=True, is_readable=True))
    room: DiskState = ROOMY
    files: Sequence[FileState] = ()
    refuses_writes: str | None = None

    def disk(self) -> DiskState:
        """See the port."""
        return self.room

    def try_write(self) -> None:
        """See the port."""
        if self.refuses_writes is not None:
            raise Determinate(f"the folder cannot be written: {self.refuses_writes}")

    def folder(self) -> FileState:
        """See the port."""
        return self.state

    def secrets(self) -> Sequence[FileState]:
        """See the port."""
        return self.files


@dataclass(slots=True)
class MemoryProbe(Generic[S]):
    """A DatabaseProbe, RedisProbe or EngineMachineProbe, by what it sees.

    None: there is no answer.
    """

    state: S | None

    def look(self) -> S:
        """See the port."""
        if self.state is None:
            raise Determinate("it does not answer")
        return self.state


class InlineBounded:
    """A Bounded that runs one work after the other.

    Those in `hanging` are not run and count as timed out.
    """

    def __init__(self, hanging: Sequence[Callable[[], object]] = ()) -> None:
        self._hanging = hanging

    def results(self, works: Sequence[Callable[[], T]], *, within_s: float) -> Sequence[T | Exception]:
        """See the port."""
        return [self._result(work) for work in works]

    def _result(self, work: Callable[[], T]) -> T | Exception:
        if work in self._hanging:
            return TimeoutError()
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # it is handed to the caller that asked
            return error

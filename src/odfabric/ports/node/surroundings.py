"""Looks at a node's surroundings, for checks that work when part of it fails.

Every method may hang or raise Determinate; anyone who calls bounds both (`Bounded`). None needs a prepared workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from odfabric.model.node.surroundings import DatabaseState, DiskState, EngineMachine, FileState, RedisState

T = TypeVar("T")


class WorkspaceProbe(Protocol):
    """The folder of the workspace."""

    def disk(self) -> DiskState:
        """How full its disk is."""

    def try_write(self) -> None:
        """Write a small file and remove it. Raises Determinate with the system's reason."""

    def folder(self) -> FileState:
        """The folder itself. Raises NotFound if there is none."""

    def secrets(self) -> Sequence[FileState]:
        """Files that are there and hold secrets."""


class DatabaseProbe(Protocol):
    """The database."""

    def look(self) -> DatabaseState:
        """Raises Determinate if it does not answer, Corrupt for a damaged file."""


class RedisProbe(Protocol):
    """A Redis."""

    def look(self) -> RedisState:
        """Raises Determinate if it does not answer."""


class EngineMachineProbe(Protocol):
    """The machine of the engine that a workspace starts."""

    def look(self) -> EngineMachine:
        """Starts no engine."""


class Bounded(Protocol):
    """Does several things at once, none for longer than a limit."""

    def results(self, works: Sequence[Callable[[], T]], *, within_s: float) -> Sequence[T | Exception]:
        """What each work returned or raised, in order.

        TimeoutError for one that had not ended in time, which is left behind.
        """

"""A node's surroundings: disk, files, database, Redis, the engine's machine."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True)
class DiskState:
    """How full the disk of the workspace is.

    `inodes` is 0 where the file system does not count them.
    """

    free_bytes: int
    all_bytes: int
    free_inodes: int
    inodes: int


@dataclass(frozen=True, slots=True)
class FileState:
    """A workspace file or folder: permission bits, and whether our user owns it."""

    name: str
    mode: int
    is_own: bool
    is_readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """A database that answers.

    `revision` is empty without our tables; `needed` is the revision of this release. `now` is the server's clock, None where the database
    has none of its own; `asked_at` is this machine's clock halfway through the question, which took `answer_s`. `newest` is the latest
    system time of a head.
    """

    version: str
    revision: str
    needed: str
    asked_at: Instant
    answer_s: float
    now: Instant | None
    newest: Instant | None


@dataclass(frozen=True, slots=True)
class RedisState:
    """A Redis that answers: its version and what it does when its memory is full."""

    version: str
    eviction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMachine:
    """What this machine offers to an engine of the workspace.

    `java` is the version of the runtime that the engine would use, empty with `java_problem` if there is none. `namespaces` and `landlock`
    tell which walls can be put up. `available_mib` is memory that programs may still take, None if the system does not tell.
    """

    java: str
    java_problem: str
    namespaces: bool
    landlock: bool
    available_mib: int | None


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's rows, and bytes with indexes; None where unknown or not in time."""

    rows: int | None
    size_bytes: int | None

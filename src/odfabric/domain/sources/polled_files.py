"""Which files of a folder a pull reads, and which it passes over and says so.

Owns the order of files (numbers in names count as numbers: part-10 comes after part-9) and the rules for files that come late or are replaced.
Invariant: no file that matches is passed over in silence; a file is read a second time only where the merge strategy makes that harmless. A
late file was never read, so its rows are new; it is read unless its older rows would come on top of newer ones. Not here: listing files
(`ports.sources.polling_files`), finding out what was read (`usecases.polling.known_files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
)

_NUMBER = re.compile(r"(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that matches the source's pattern now; `size` is in bytes."""

    name: str
    size: int
    modified_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFile:
    """A file that was read.

    Blocks of other nodes, and older ones, only say its name and when (`read_at`).
    """

    read_at: Instant
    size: int | None = None
    modified_at: Instant | None = None
    content: Multihash | None = None

    def is_unchanged(self, found: FoundFile) -> bool:
        """Whether size and time say that this is the file that was read."""
        if self.size is None or self.modified_at is None:
            return found.modified_at <= self.read_at
        return (self.size, self.modified_at) == (found.size, found.modified_at)

    def may_be_same(self, found: FoundFile) -> bool:
        """Whether only the content can tell: the time differs, the size does not."""
        return self.content is not None and self.size == found.size and not self.is_unchanged(found)


class Reason(Enum):
    """Why a file is passed over."""

    LATE = "late"
    REPLACED = "replaced"
    SAME_NAME = "same-name"


@dataclass(frozen=True, slots=True)
class PassedFile:
    """A file that matches and is not read.

    `message` says why, `hint` how to get it in.
    """

    name: str
    reason: Reason
    message: str
    hint: str

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {"name": self.name, "reason": self.reason.value, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class FilePlan:
    """`read` are names in the order of reading."""

    read: tuple[str, ...]
    passed: tuple[PassedFile, ...]


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Natural sort key: digits by number, the rest by characters, then the name."""
    parts = _NUMBER.split(name)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], name


def plan_files(found: Sequence[FoundFile], known: Mapping[str, KnownFile], merge: MergeStrategy) -> FilePlan:
    """What to do with the files that match, in their natural order.

    `found` has several of a name where folders differ.
    """
    last = max(known, key=natural_key, default=None)
    read: list[str] = []
    passed: list[PassedFile] = []
    by_name: dict[str, FoundFile] = {}
    for file in sorted(found, key=lambda file: natural_key(file.name)):
        if file.name in by_name:
            passed.append(_same_name(file.name))
            continue
        by_name[file.name] = file
        before = known.get(file.name)
        if before is not None and before.is_unchanged(file):
            continue
        refused = _refusal(file, before, last, merge)
        if refused is None:
            read.append(file.name)
        else:
            passed.append(refused)
    return FilePlan(tuple(read), tuple(passed))


def state_name(before: str | None, name: str) -> str:
    """The name to remember after reading a file.

    The greatest in plain order, after which other ODF nodes go on.
    """
    return name if before is None else max(before, name)


def _refusal(file: FoundFile, known: KnownFile | None, last: str | None, merge: MergeStrategy) -> PassedFile | None:
    """Why a new or changed file is passed over; None to read it.

    Changed: another one than was read (`known`).
    """
    if known is None:
        is_late = last is not None and natural_key(file.name) < natural_key(last)
        return _late(file.name, last or "") if is_late and not _takes_late(merge) else None
    if isinstance(merge, MergeStrategyLedger):
        return None
    if repeats_rows(merge):
        return PassedFile(
            file.name,
            Reason.REPLACED,
            f"{file.name} was replaced after it had been read; reading it again would repeat its rows",
            "put the corrected rows into a file with a new name, or declare a merge with a primary key in a new dataset",
        )
    if file.name != last:
        return PassedFile(
            file.name,
            Reason.REPLACED,
            f"{file.name} was replaced after it had been read; its rows would overwrite those of {last}, which came later",
            f"put the corrected rows into a file whose name comes after {last}",
        )
    return None


def repeats_rows(merge: MergeStrategy) -> bool:
    """Whether reading rows twice stores them twice: no key makes the merge idempotent."""
    return isinstance(merge, MergeStrategyAppend | MergeStrategyChangelogStream)


def _takes_late(merge: MergeStrategy) -> bool:
    """Whether the order of files does not matter to what is stored."""
    return isinstance(merge, MergeStrategyAppend | MergeStrategyLedger)


def _late(name: str, last: str) -> PassedFile:
    return PassedFile(
        name,
        Reason.LATE,
        f"{name} came after {last} had been read; its older rows would overwrite newer ones",
        f"give it a name that comes after {last} if its rows are to count",
    )


def _same_name(name: str) -> PassedFile:
    return PassedFile(
        name,
        Reason.SAME_NAME,
        f"another file of the name {name} matches too; a source knows files by their names, so only one is read",
        "give files in different folders different names",
    )


def listed(passed: Iterable[PassedFile], *, limit: int) -> dict[str, object]:
    """The first files as JSON, and how many more there are; empty without any."""
    files = tuple(passed)
    more = len(files) - limit
    shown: dict[str, object] = {"passedOver": [file.to_value() for file in files[:limit]]} if files else {}
    return {**shown, "passedOverMore": more} if more > 0 else shown

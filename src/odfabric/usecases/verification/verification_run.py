"""One verification: what is asked for, what it works with, and what it has found.

Owns the values that the steps of a verification share. Not here: the steps (`verify_dataset`, `verify_transactions`).
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from odfabric.domain.chain.verify import ProblemKind, VerificationProblem
from odfabric.errors import InvalidRequest, Place
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineInfo, EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.history.rewritten_inputs import InputHistories
from odfabric.usecases.jobs.job_run import JobRun

PROBLEMS_MAX = 100
AWAY = ("unavailable", "outcome-unknown", "lease-lost")
"""Codes of errors that say nothing of the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What to check besides the chain, and of which blocks.

    `after` and `until` bound the blocks whose objects and transactions are checked: those of `(after, until]`; None is the seed and the head.
    The chain itself is always judged from the seed to `until`, for a block is right only after those before it. With `report` the
    result has a signed report, with `fetch` what is missing here is fetched first from where copies are.
    """

    data: bool = True
    replay: bool = True
    after: Multihash | None = None
    until: Multihash | None = None
    report: bool = False
    fetch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCounts:
    """How much was checked: blocks, objects, and transactions that were run again."""

    blocks: int
    objects: int
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedHeads:
    """Who signs the dataset now, entries of its head log, and its records of engines.

    `records_unsigned` were written where the key was not.
    """

    signer: str
    entries: int
    records_signed: int
    records_unsigned: int

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        records = {"signed": self.records_signed, "unsigned": self.records_unsigned}
        return {"signer": self.signer, "entries": self.entries, "engineRecords": records}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What is wrong, what could not be judged here, and what was checked.

    `head` is the block up to which it was checked, `engine` the one that ran transactions again, None if none did;
    `heads` None if nobody signs the dataset.
    """

    problems: tuple[VerificationProblem, ...]
    skipped: tuple[str, ...] = ()
    head: Multihash
    counts: CheckedCounts
    engine: EngineInfo | None = None
    heads: CheckedHeads | None = None
    started_at: Instant
    ended_at: Instant


@dataclass(slots=True)
class Verification:
    """One run: the ports, the dataset, and what was found so far."""

    entry: CatalogEntry
    options: VerifyOptions
    run: JobRun
    repository: Repository
    engine: Engine
    exchange: Exchange
    clock: Clock
    blocks_max: int
    replays_at_once: int = 1
    histories: InputHistories | None = None
    problems: list[VerificationProblem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    objects: int = 0
    transactions: int = 0
    engine_info: EngineInfo | None = None
    engine_answer: Future[EngineInfo] | None = None
    _reporting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dataset(self) -> DatasetId:
        """The dataset that is verified."""
        return self.entry.id

    def add(self, problem: VerificationProblem | None) -> None:
        """Keep a problem, up to a limit."""
        if problem is not None and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def found(
        self, kind: ProblemKind, message: str, *, block: Multihash | None = None, name: Multihash | None = None
    ) -> None:
        """Keep a problem of the dataset."""
        self.add(self.problem(kind, message, block=block, name=name))

    def problem(
        self, kind: ProblemKind, message: str, *, block: Multihash | None = None, name: Multihash | None = None
    ) -> VerificationProblem:
        """A problem of the dataset."""
        return VerificationProblem(kind=kind, dataset=self.dataset, block=block, object=name, message=message)

    def report(self, progress: EngineProgress) -> None:
        """Say how far it is; several threads may."""
        with self._reporting:
            self.run.report(progress)

    def first_checked(self, hashes: list[Multihash]) -> int:
        """Position of the first block whose objects and transactions are checked.

        Raises InvalidRequest if `after` is none of `hashes`, the chain up to `until`.
        """
        if self.options.after is None:
            return 0
        if self.options.after not in hashes:
            raise InvalidRequest(
                f"block {self.options.after} is not below the last block of the range",
                place=Place(field="from"),
                hint=f"`odf log {self.entry.alias}` lists the blocks of its chain",
            )
        return hashes.index(self.options.after) + 1

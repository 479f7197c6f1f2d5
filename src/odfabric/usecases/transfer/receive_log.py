"""The head log of an arriving chain: judged first, kept with the chain.

Invariant: a chain is taken from the newest head that its log signs, and not at all if the log is wrong. What was seen is remembered before
the head moves, so a process that dies in between does not forget it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odfabric.errors import Changed
from odfabric.model.heads.head_log import SignedMove
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.heads.judge_log import JudgedLog, LogJudge, LogPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedLog:
    """What was judged, and what is to be done with it.

    `judged` None: the dataset is not signed there.
    """

    dataset: DatasetId
    taken: Multihash
    """Head up to which the chain is taken unless it follows the log."""
    judged: JudgedLog | None
    judge: LogJudge
    shown: str
    force: bool
    follows: bool = True

    @property
    def head(self) -> Multihash | None:
        """The newest signed head, if the chain is to be taken from there."""
        return self.judged.head if self.judged is not None and self.follows else None

    @property
    def moves(self) -> tuple[SignedMove, ...]:
        """Entries up to the head that is taken, written with its move."""
        return () if self.judged is None or self.judged.replaces else self._up_to_head(self.judged.moves)

    def _up_to_head(self, moves: tuple[SignedMove, ...]) -> tuple[SignedMove, ...]:
        if self.follows:
            return moves
        ends = (at for at in range(len(moves), 0, -1) if moves[at - 1].move.new_head == self.taken)
        return moves[: next(ends, 0)]

    def check_lineage(self, number_of: Callable[[Multihash], int | None]) -> None:
        """Hold what the log says of moves against the chain. Raises CorruptedSource."""
        if self.judged is None:
            return
        replaces = self.judged.replaces
        self.judge.check_lineage(self.dataset, self.judged.moves if replaces else self.moves, number_of, whole=replaces)

    def note(self) -> None:
        """Remember what was seen."""
        if self.judged is not None:
            self.judge.note(self.dataset, self.judged, shown=self.shown, forced=self.force)

    def keep(self, alias: DatasetAlias, *, by: Actor, commits: Commits) -> None:
        """Store what the move of the head has not stored, and publish it."""
        logs, judged = self.judge.logs, self.judged
        line = logs.last(self.dataset)
        if judged is None and (line is None or not self.force):
            return
        if judged is None or judged.replaces:
            audit = AuditEntry(
                kind=AuditKind.HISTORY_REPLACED,
                actor=by,
                at=self.judge.clock.now(),
                target=str(alias),
                dataset=self.dataset,
                detail={"headLog": "removed" if judged is None else "replaced", "from": self.shown},
            )
            logs.replace(self.dataset, () if judged is None else judged.moves, audit=[audit])
            self.note()
            commits.publish_log(self.dataset)
            return
        last = self.judge.logs.last(self.dataset)
        if last is not None and judged.end.last is not None and last == judged.end.last.line:
            return
        try:
            logs.add(
                self.dataset,
                [each for each in self.moves if self.judge.kept(self.dataset, each.move.sequence) is None],
            )
        except Changed:
            return  # another pull has kept the same, or more
        commits.publish_log(self.dataset)


def receive_log(
    dataset: DatasetId,
    head: Multihash,
    place: LogPlace,
    *,
    judge: LogJudge,
    shown: str,
    force: bool,
    follows: bool,
) -> ReceivedLog:
    """Judge the log at `place`. Raises as `LogJudge.judge`."""
    judged = judge.judge(dataset, head, place, shown=shown, force=force)
    if force and judged is not None and judged.head != head:
        judged = None  # another head than the signed one is wanted: the copy is not signed
    return ReceivedLog(
        dataset=dataset, taken=head, judged=judged, judge=judge, shown=shown, force=force, follows=follows
    )

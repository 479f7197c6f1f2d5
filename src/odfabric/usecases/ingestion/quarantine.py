"""Keep rejected rows in a dataset beside the source's own, `<name>.rejected`.

Invariant: rejected rows are committed before the rows that were taken in, and each once, whatever dies in between: a row is known by the job
that brought it and its place in the file, and the dataset merges by that (Ledger). It is an ordinary dataset of the same account, private at
first, so it is queried, followed and verified like any other. Not here: which rows are rejected (the engine).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.chain.append import next_system_time
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.ingest_plan import push_source
from odfabric.errors import InvalidRequest, SourceNotFound
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddPushSource
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import Actor
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.own_dataset import own_dataset
from odfabric.usecases.ingestion.ingest import IngestInput, IngestPorts, RejectedFile, plan_ingest
from odfabric.usecases.jobs.job_run import JobRun

SUFFIX = ".rejected"
SOURCE = "rejected"
ID_CHARACTERS = 32

_MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: NAME
  kind: Root
  metadata:
    - kind: SetInfo
      description: Rows that could not be read, with the reason of each
      keywords: [quarantine]
    - kind: AddPushSource
      sourceName: rejected
      read:
        kind: NdJson
        schema:
          fields:
            - { name: id, type: String }
            - { name: source, type: String }
            - { name: file, type: { kind: Option, inner: String } }
            - { name: line, type: { kind: Option, inner: Int64 } }
            - { name: position, type: { kind: Option, inner: Int64 } }
            - { name: field, type: { kind: Option, inner: String } }
            - { name: reason, type: String }
            - { name: raw, type: { kind: Option, inner: String } }
      merge:
        kind: Ledger
        primaryKey: [id]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Where rejected rows go."""

    ingest: IngestPorts
    commits: Commits
    keys: DatasetKeys
    clock: Clock

    def keep(self, rejected: RejectedFile, run: JobRun) -> DatasetAlias:
        """Commit the rows of a file; the dataset that has them.

        Raises InvalidRequest if its name is that of something else.
        """
        entry = self._dataset(self.ingest.repository.resolve(rejected.dataset))
        folder = rejected.path.parent / "rejected-rows"
        folder.mkdir(exist_ok=True)
        path = folder / "rows.ndjson"
        with path.open("w", encoding="utf-8") as out:
            out.writelines(_rows(rejected, run.job_id))
        source = push_source(self.ingest.repository.current(entry.id)[1], SOURCE)
        beside = _Beside(run, self.clock)
        self.commits.commit(entry.id, lambda base: self._planned(entry.id, base, source, path, beside), by=[run.actor])
        return entry.alias

    def _planned(
        self, dataset: DatasetId, base: Head, source: AddPushSource, path: Path, run: JobRun
    ) -> PlannedCommit | None:
        given = IngestInput(
            folder=path.parent,
            paths=(path,),
            names=(path.name,),
            read=source.read,
            preprocess=source.preprocess,
            merge=source.merge,
            source_name=source.source_name,
        )
        return plan_ingest(
            dataset,
            base,
            given,
            run=run,
            ports=self.ingest,
        ).commit

    def _dataset(self, of: CatalogEntry) -> CatalogEntry:
        """The dataset, made if it is not there."""
        alias = DatasetAlias(of.alias.account, parse_name(f"{of.alias.name}{SUFFIX}"))
        found = own_dataset(
            alias,
            _MANIFEST.replace("NAME", str(alias.name)),
            repository=self.ingest.repository,
            commits=self.commits,
            keys=self.keys,
            clock=self.clock,
        )
        try:
            push_source(self.ingest.repository.current(found.id)[1], SOURCE)
        except SourceNotFound:
            raise InvalidRequest(
                f"{alias} is no dataset of rejected rows",
                hint=f"rename it: rows that {of.alias} rejects are kept under this name",
            ) from None
        return found


@dataclass(frozen=True, slots=True)
class _Beside:
    """A job as the dataset of rejected rows sees it.

    What the job remembers of its own dataset stays as it is.
    """

    run: JobRun
    clock: Clock

    @property
    def job_id(self) -> str:
        return self.run.job_id

    @property
    def actor(self) -> Actor:
        return self.run.actor

    def report(self, progress: EngineProgress) -> None:
        self.run.report(progress)

    def confirm(self) -> None:
        self.run.confirm()

    def system_time(self, base: ChainState) -> Instant:
        return next_system_time(base, now=self.clock.now())

    def began_at(self, dataset: DatasetId, head: Multihash) -> Multihash:
        return head

    def following(self, *, limit: int) -> Sequence[Job]:
        return ()

    def take_along(self, job_ids: Sequence[str]) -> None:
        """Nothing is."""


def _rows(rejected: RejectedFile, job_id: str) -> Iterator[str]:
    with rejected.path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            known_by = f"{job_id}/{rejected.names}/{number}"
            row_id = hashlib.sha256(known_by.encode()).hexdigest()[:ID_CHARACTERS]
            row = {"id": row_id, "source": rejected.source_name, **json.loads(line)}
            yield json.dumps(row, ensure_ascii=False) + "\n"

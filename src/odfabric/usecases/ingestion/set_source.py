"""Replace the sources of a root dataset, or give it more of them.

Invariant: what is committed are sources that the chain admits and whose declared columns the dataset can hold; a new optional column is
added to its schema in the same commit, so rows may bring it, and derivative datasets take it up, from then on. Rows are not touched here: those
of before have null. Not here: what may change (`domain.sources.source_evolution`), the data that sources bring (`push_data`, `poll_source`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odfabric.domain.chain.append import fold_blocks, link_blocks, next_system_time
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.snapshot import link_events
from odfabric.domain.people.access import Action, Subject
from odfabric.domain.sources.runnable_sources import PermittedSources
from odfabric.domain.sources.source_evolution import (
    GivenColumns,
    Source,
    changed_sources,
    check_origin,
    check_runnable,
    check_sources,
    declared_columns,
    schema_of_sources,
    source_title,
    sources_of,
)
from odfabric.errors import IncompatibleSchema, InvalidRequest
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.data_schema import DataSchema
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind, SetDataSchema
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of
from odfabric.usecases.ingestion.judge_source import SourceJudge
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True)
class ChangedSources:
    """`result` None: the dataset has these sources already.

    `sources` are for people, `columns` the new ones of the dataset.
    """

    entry: CatalogEntry
    result: CommitResult | None
    sources: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def to_value(self, head: Head) -> dict[str, object]:
        """As JSON, `head` being the dataset's; without blocks nothing was to be changed."""
        return {
            "id": str(self.entry.id),
            "alias": str(self.entry.alias),
            "head": str(head.hash),
            "blocks": [] if self.result is None else [str(block) for block in self.result.blocks],
            "sources": list(self.sources),
            "columns": list(self.columns),
        }


def set_source(
    snapshot: DatasetSnapshot,
    *,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    column_name_bytes_max: int,
    permitted: PermittedSources,
) -> ChangedSources:
    """Give the dataset of the manifest's name the manifest's sources.

    Other events of the manifest are not looked at.

    A push source takes the place of that with its name; others stay. Raises NotFound, InvalidManifest for sources that the dataset
    cannot have, InvalidRequest for a copy or a derivative dataset, InvalidQuery for a preprocess query, and IncompatibleSchema for
    columns that do not fit the dataset.
    """
    entry = repository.resolve(snapshot.name)
    access.require(subject, Action.WRITE, entry)
    if entry.is_copy:
        raise InvalidRequest(f"{entry.alias} is a copy", hint="its owner changes the sources, and a pull brings them")
    if entry.kind is not DatasetKind.ROOT:
        raise InvalidRequest(f"{entry.alias} is a derivative dataset", hint="it has a transform in place of sources")
    check_runnable(snapshot, permitted)
    said: list[ChangedSources] = []

    def build(base: Head) -> PlannedCommit | None:
        state = repository.state(entry.id, base.hash)
        current = current_schema(state)
        known = () if current is None else [field.name for field in current.fields]
        check_sources(snapshot, state.vocabulary, name_bytes_max=column_name_bytes_max, known=known)
        changed = changed_sources(state, snapshot)
        if not changed:
            return None
        check_origin(state, [source for _, source in changed])
        system_time = next_system_time(state, now=clock.now())
        blocks = link_events(state, changed, system_time=system_time)
        after = fold_blocks(state, blocks)
        sources = [source for _, source in changed]
        columns: tuple[str, ...] = ()
        judge = SourceJudge(after, system_time, engine, exchange)
        if current is None:
            judge.check_queries(snapshot)
        else:
            evolved = _EvolvedColumns(judge).schema(current, changed)
            columns = tuple(field.name for field in evolved.fields[len(current.fields) :])
            if columns:
                blocks += link_blocks(after, [SetDataSchema(schema=evolved)], system_time=system_time)
        said[:] = [ChangedSources(entry, None, tuple(source_title(each) for each in sources), columns)]
        return PlannedCommit(tuple(blocks))

    try:
        committed = commits.commit(entry.id, build, by=[subject.actor])
    except IncompatibleSchema as refused:
        raise IncompatibleSchema(
            f"{entry.alias}: {refused.message}", place=refused.place, hint=refused.hint
        ) from refused
    return ChangedSources(entry, None) if committed is None else replace(said[0], result=result_of(committed))


@dataclass(frozen=True, slots=True)
class _EvolvedColumns:
    """The judge's dataset has the sources as they are to be, and the schema as it was."""

    judge: SourceJudge

    def schema(self, current: DataSchema, changed: Sequence[tuple[int, Source]]) -> DataSchema:
        """The schema of the changed sources.

        Where it has more columns than `current`, also all others.
        """
        state = self.judge.state
        given = self._given(changed, current)
        evolved = schema_of_sources(current, given, state.vocabulary)
        if evolved is current:
            return current
        known = [source for _, source in changed]
        others = [(None, source) for source in sources_of(state) if source not in known]
        return schema_of_sources(current, [*given, *self._given(others, current)], state.vocabulary)

    def _given(self, sources: Sequence[tuple[int | None, Source]], current: DataSchema) -> list[GivenColumns]:
        asked = [(source, self._columns(source, index, current)) for index, source in sources]
        return [GivenColumns(source, columns) for source, columns in asked if columns is not None]

    def _columns(self, source: Source, index: int | None, current: DataSchema) -> DataSchema | None:
        """What a slice of this source has, None if only its data tell."""
        found = self.judge.columns(source, index=index)
        declared = declared_columns(source)
        event_time = self.judge.state.vocabulary.event_time
        if found is None or declared is None or source.preprocess is not None:
            return found
        if any(each.name == event_time for each in declared.fields):
            return found
        # Rows without an event time get one of the type that the dataset has.
        own = {field.name: field for field in current.fields}
        fields = tuple(own.get(each.name, each) if each.name == event_time else each for each in found.fields)
        return replace(found, fields=fields)

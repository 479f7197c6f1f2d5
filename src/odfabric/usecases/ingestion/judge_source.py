"""Judge a root dataset's sources before any data: their columns and queries.

Owns the way from a source to what the engine is asked of it, a slice of no rows, and from its answer to an error that says where the source
is wrong. Invariant: nothing is stored. What only data tell - the columns of a source that declares none - is not judged. Not here: what
columns may be (`domain.sources.source_evolution`), what is wrong with a query (the engine).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.sources.source_evolution import Source, declared_columns, source_title
from odfabric.errors import InvalidData, InvalidManifest, InvalidQuery
from odfabric.formats.slices.column_names import WRONG_COLUMNS
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import EngineProgress, IngestRequest
from odfabric.model.instant import Instant
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import AddPushSource, SetPollingSource
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.usecases.queries.validate_queries import ENGINE

NO_DATA = "no-data"
"""Name of an empty file: what a source gives is asked of the engine over no rows."""


@dataclass(frozen=True, slots=True)
class SourceJudge:
    """Asks the engine of sources of the dataset whose chain has come to `state`."""

    state: ChainState
    system_time: Instant
    engine: Engine
    exchange: Exchange

    def check_queries(self, snapshot: DatasetSnapshot) -> None:
        """Judge a manifest's preprocess queries, as far as their columns are declared.

        Raises InvalidQuery, and InvalidManifest for columns that do not fit. Queries for other engines are not judged: they may be of a
        node that has those. Nor is what a query makes of no rows: it may have a meaning over some.
        """
        for index, event in enumerate(snapshot.metadata):
            if not isinstance(event, AddPushSource | SetPollingSource) or event.preprocess is None:
                continue
            if event.preprocess.engine.lower() == ENGINE:
                try:
                    self.columns(event, index=index)
                except InvalidManifest as refused:
                    if refused.place.rule == WRONG_COLUMNS:
                        raise

    def columns(self, source: Source, *, index: int | None = None) -> DataSchema | None:
        """What a slice of this source has, None if only its data tell.

        `index` is its place among the events of a manifest.

        Raises InvalidQuery for its preprocess query, InvalidManifest for what it says of its data.
        """
        if declared_columns(source) is None:
            return None
        with self.exchange.session() as folder:
            (folder / NO_DATA).touch()
            path = folder.relative_to(self.exchange.root).as_posix()
            request = IngestRequest(
                vocabulary=self.state.vocabulary,
                data_paths=(f"{path}/{NO_DATA}",),
                file_names=(NO_DATA,),
                read=source.read,
                preprocess=source.preprocess,
                merge=source.merge,
                data_schema=None,
                history=(),
                system_time=self.system_time,
                event_time_fallback=self.system_time,
                next_offset=self.state.next_offset,
                new_data_path=f"{path}/new-data",
                known_columns=self._known_columns(),
            )
            try:
                return self.engine.ingest(request, progress=_unheard).data_schema
            except InvalidQuery as refused:
                if index is not None:
                    statement = refused.place.field or "queries[0]"
                    refused.place = replace(refused.place, field=f"metadata[{index}].preprocess.{statement}")
                raise
            except InvalidData as refused:
                # There are no data: it is about what the source says of them.
                message = f"{source_title(source)}: {refused.message}"
                raise InvalidManifest(message, place=refused.place, hint=refused.hint) from refused

    def _known_columns(self) -> tuple[str, ...]:
        current = current_schema(self.state)
        return () if current is None else tuple(field.name for field in current.fields)


def _unheard(progress: EngineProgress) -> None:
    """Over no rows there is nothing to tell."""

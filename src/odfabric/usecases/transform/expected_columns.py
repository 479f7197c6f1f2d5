"""Which columns a dataset will have that has no data yet.

Owns what is known of them: what the engine makes of no rows for its sources, which all have to give the same, or what its query gives over the
columns of its inputs. Invariant: nothing is stored, and what only data tell is not known; so a query that is refused over such columns would be
refused when they come. Not here: the columns of datasets that have data (`domain.chain.schema_evolution`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.sources.source_evolution import Source
from odfabric.errors import InvalidInput, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.judge_source import SourceJudge
from odfabric.usecases.queries.validate_queries import ENGINE
from odfabric.usecases.transform.judge_transform import validate_request

DATASETS_MAX = 100
"""Datasets without data that are asked for the columns of one query; those behind them are not known."""


@dataclass(frozen=True, slots=True)
class ExpectedColumns:
    """Asks the engine; each dataset once."""

    repository: Repository
    engine: Engine
    exchange: Exchange
    system_time: Instant
    _found: dict[DatasetId, DataSchema | None] = field(default_factory=dict)

    def of(self, entry: CatalogEntry, state: ChainState) -> DataSchema | None:
        """The columns of a dataset, None if only its data tell.

        Raises Determinate if the engine cannot be asked.
        """
        known = current_schema(state)
        if known is not None or entry.remote_url is not None:
            return known
        if entry.id not in self._found and len(self._found) < DATASETS_MAX:
            self._found[entry.id] = None  # also for one that is derived from itself
            with suppress(InvalidInput, NotFound):  # what is wrong with it is reported where it is declared
                self._found[entry.id] = self._of_sources(state) if state.transform is None else self._of_query(state)
        return self._found.get(entry.id)

    def _of_sources(self, state: ChainState) -> DataSchema | None:
        sources: list[Source] = [each.event for each in state.push_sources]
        if state.polling_source is not None:
            sources.append(state.polling_source.event)
        if any(each.preprocess is not None and each.preprocess.engine.lower() != ENGINE for each in sources):
            return None
        judge = SourceJudge(state, self.system_time, self.engine, self.exchange)
        found = [judge.columns(each) for each in sources]
        return found[0] if found and all(each == found[0] for each in found) else None

    def _of_query(self, state: ChainState) -> DataSchema | None:
        assert state.transform is not None
        request = validate_request(
            state.transform.event, state.vocabulary, repository=self.repository, expected=self.of
        )
        if any(each.data_schema is None for each in request.inputs):
            return None
        return self.engine.validate_query(request).data_schema

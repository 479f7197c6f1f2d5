"""Rows of datasets, bound to a node's ports: the last, the current, and queries.

The current ones are the state of a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.why_rows import why_rows
from odfabric.usecases.queries.query_data import QueryAnswer, QueryData, QueryLimits, query_data
from odfabric.usecases.queries.query_document import QueryForm, query_document
from odfabric.usecases.queries.table_functions import Explain
from odfabric.usecases.reading.read_tail import ReadTail, read_tail
from odfabric.usecases.state.read_state import ReadState, StatePorts, read_state
from odfabric.usecases.state.time_travel import TravelPorts
from odfabric.wiring.datasets.explaining import ProvenanceVerbs
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerbs:
    """Verbs that read rows.

    `index` is the index of current states, None if this node keeps none.
    """

    core: NodeCore
    index: StateIndex | None

    def tail(self, entry: CatalogEntry, asked: ReadTail) -> dict[str, object]:
        """The last rows."""
        core = self.core
        return read_tail(
            entry,
            asked,
            repository=core.repository,
            exchange=core.ports.exchange,
            rows_max=core.settings.tail_rows_max,
            corrections_rows_max=core.settings.provenance_rows_max,
        )

    def block_numbered(self, entry: CatalogEntry, number: int) -> Multihash:
        """The block of a number, or the head for a greater one. Raises NotFound."""
        found = next(self.core.repository.chains.rows_down(entry.id, from_sequence=number), None)
        if found is None:
            raise NotFound("dataset", str(entry.alias))
        return found.hash

    def state(self, entry: CatalogEntry, asked: ReadState) -> dict[str, object]:
        """The state at a moment."""
        core, settings = self.core, self.core.settings
        ports = StatePorts(
            repository=core.repository,
            exchange=core.ports.exchange,
            index=self.index,
            rows_max=settings.tail_rows_max,
            state_rows_max=settings.state_rows_max,
            blocks_max=settings.chain_blocks_max,
        )
        return read_state(entry, asked, ports=ports)

    @contextmanager
    def query(
        self,
        request: QueryData,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
    ) -> Iterator[QueryAnswer]:
        """Run a query; its answer file lives as long as the context."""
        core, settings, subject = self.core, self.core.settings, by or self.core.operator
        limits = QueryLimits(
            text_bytes_max=settings.query_text_bytes_max,
            rows_max=settings.query_rows_max,
            bytes_max=settings.query_bytes_max,
            wall_s_max=settings.query_wall_s_max,
        )
        with core.ports.exchange.session() as folder:
            yield query_data(
                request,
                folder,
                travel=self._travel(core.seen_by(subject)),
                engine=core.ports.engine,
                explaining=lambda calls: self._explain(subject, progress, calls),
                limits=limits,
                progress=progress,
            )

    def _travel(self, repository: Repository) -> TravelPorts:
        settings = self.core.settings
        return TravelPorts(
            repository=repository,
            exchange=self.core.ports.exchange,
            index=self.index,
            rows_max=settings.state_rows_max,
            blocks_max=settings.chain_blocks_max,
        )

    def _explain(self, subject: Subject, progress: Callable[[EngineProgress], None], calls: int) -> Explain:
        """Traces of one query.

        All `calls` together take no longer than one trace may, or a query.
        """
        settings = self.core.settings
        wall_s_max = min(settings.provenance_wall_s_max, settings.query_wall_s_max) / max(1, calls)
        ports = ProvenanceVerbs(self.core).ports(subject, wall_s_max=wall_s_max)
        return lambda entry, asked, until: why_rows(entry, asked, until, ports=ports, progress=progress)

    def query_document(
        self,
        request: QueryData,
        form: QueryForm,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
    ) -> dict[str, object]:
        """Run a query; its answer as a JSON value.

        `progress` is called at least once a second, and ends the query by raising.
        """
        form.check()
        with self.query(request, progress, by=by) as answer:
            return query_document(request, form, answer)

"""The engines of a node as one port: ours, and the reference's from settings.

Owns which engine runs a transform, the one that its manifest names, and how much of it at once. Invariant: a transform never runs on another engine than
the one it was written for; a name that nobody has is refused with those that are there. Everything but transforms is our own
engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from odfabric.adapters.grpc_engine.contract_engine import ContractChannel, ContractEngine
from odfabric.domain.chain.verify import ENGINE_RULE
from odfabric.domain.transform.transform_cut import TransactionLimits
from odfabric.errors import InvalidQuery, Place
from odfabric.model.engine import (
    EngineInfo,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryRequest,
    QueryResult,
    TransformRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.metadata import Transform
from odfabric.model.provenance import ProvenanceRequest, ProvenanceResult
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.settings import Settings

OWN_ENGINE = "spark"


class EnginesByName:
    """Implements `ports.engine.Engine`.

    `others` go by the names that transforms call them.
    """

    def __init__(self, own: Engine, others: Mapping[str, ContractEngine]) -> None:
        self._own = own
        self._others = others

    def info(self) -> EngineInfo:
        """Our own engine's."""
        return self._own.info()

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port."""
        return self._own.ingest(request, progress=progress)

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port; also raises InvalidQuery for an engine that is not there."""
        other = self._other(request.transform)
        return (other or self._own).execute_transform(request, progress=progress)

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """See the port.

        Other engines judge a transform only by running it; ours says of unknown names what to do.
        """
        if request.transform.engine.lower() not in self._others:
            return self._own.validate_query(request)
        return ValidateResult(problems=(), data_schema=None, operator_class=None, keys=())

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port; also raises InvalidQuery for engines without such a call.

        The contract of other engines has none.
        """
        name = request.next.transform.engine
        if self._other(request.next.transform) is not None:
            raise InvalidQuery(
                f"the engine `{name}` cannot change the transform of a dataset that has data",
                place=Place(rule="transform-change"),
                hint="declare a new dataset with this transform",
            )
        return self._own.migrate_query(request, progress=progress)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        return self._own.query(request, progress=progress)

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """See the port.

        Of other engines' transforms our own explains those that it was given in its own words
        (`domain.transform.reference_meaning`); it answers by the rows that it finds.
        """
        return self._own.derive_provenance(request, progress=progress)

    def _other(self, transform: Transform) -> ContractEngine | None:
        """The engine of the reference that a transform names, None for our own.

        Raises InvalidQuery.
        """
        name = transform.engine.lower()
        other = self._others.get(name)
        if other is None and name != OWN_ENGINE:
            known = ", ".join(sorted({OWN_ENGINE, *self._others}))
            raise InvalidQuery(
                f"this node has no engine `{transform.engine}`",
                place=Place(rule=ENGINE_RULE),
                hint=f"engines here: {known}; ODF_ENGINES names others",
            )
        return other


def transaction_limits(settings: Settings) -> TransactionLimits:
    """What one transaction of a derivative dataset may be."""
    return TransactionLimits(
        rows_max=settings.transform_rows_max,
        blocks_max=settings.transform_blocks_max,
        bytes_max=settings.transform_bytes_max,
    )


def open_engines(settings: Settings, own: Engine, *, exchange: Path, closing: ExitStack) -> EnginesByName:
    """The engines that settings name beside our own, over the exchange folder.

    Connections end with `closing`.
    """
    others = {}
    for name, address in settings.engines.items():
        channel = ContractChannel(
            name=name,
            address=address,
            exchange=exchange,
            exchange_seen=settings.engines_folder or str(exchange),
            call_s_max=settings.engine_call_s_max,
            connect_s_max=settings.engines_start_s_max,
        )
        others[name] = ContractEngine(channel)
        closing.callback(others[name].close)
    return EnginesByName(own, others)

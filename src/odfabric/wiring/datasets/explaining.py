"""Why records are there, bound to a node's ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from odfabric.domain.people.access import Subject
from odfabric.formats.provenance.openlineage import openlineage_events
from odfabric.formats.provenance.prov_json import prov_document
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.usecases.provenance.ask_why import ask_why
from odfabric.usecases.provenance.trace_records import TraceLimits, TracePorts
from odfabric.usecases.provenance.why_request import WhyRequest
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class ProvenanceVerbs:
    """Verbs that explain records."""

    core: NodeCore

    def why(
        self,
        entry: CatalogEntry,
        request: WhyRequest,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
    ) -> dict[str, object]:
        """Why records of a dataset are there, as a JSON value.

        `progress` is called while the engine works, and ends the work by raising.
        """
        return ask_why(entry, request, ports=self.ports(by or self.core.operator), progress=progress)

    def why_as(
        self,
        form: Literal["json", "prov", "openlineage"],
        entry: CatalogEntry,
        request: WhyRequest,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
        namespace: str,
    ) -> object:
        """The same as PROV-JSON or OpenLineage events of the node `namespace`."""
        answer = self.why(entry, request, progress, by=by)
        match form:
            case "prov":
                return prov_document(answer)
            case "openlineage":
                return openlineage_events(answer, namespace=namespace)
            case _:
                return answer

    def ports(self, subject: Subject) -> TracePorts:
        """What a trace for this subject works with."""
        core, settings = self.core, self.core.settings
        return TracePorts(
            repository=core.repository,
            seen=core.seen_by(subject),
            engine=core.ports.engine,
            exchange=core.ports.exchange,
            clock=core.ports.clock,
            limits=TraceLimits(
                rows_max=settings.provenance_rows_max,
                evaluations_max=settings.provenance_evaluations_max,
                records_max=settings.provenance_records_max,
                depth_max=settings.provenance_depth_max,
                wall_s_max=settings.provenance_wall_s_max,
                blocks_max=settings.chain_blocks_max,
            ),
        )

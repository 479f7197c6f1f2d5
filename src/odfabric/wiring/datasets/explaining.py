"""Why records are there, bound to a node's ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from odfabric.domain.people.access import Subject
from odfabric.errors import NotFound
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.provenance.openlineage import openlineage_events
from odfabric.formats.provenance.prov_json import prov_document
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.why_request import WhyRequest
from odfabric.usecases.jobs.jobs_of_subject import seen_job
from odfabric.usecases.provenance.ask_peers import PeerLimits, PeerPorts
from odfabric.usecases.provenance.ask_why import ask_why
from odfabric.usecases.provenance.column_lineage import ColumnsOfDerivative, column_lineage, lineage_value
from odfabric.usecases.provenance.corrected_records import CorrectionPorts, Link, corrections_of
from odfabric.usecases.provenance.trace_records import TraceLimits, TracePorts
from odfabric.usecases.provenance.why_job import kept_answer
from odfabric.usecases.transfer.remote_names import RemoteNames
from odfabric.wiring.node_core import NodeCore

WhyForm = Literal["json", "prov", "openlineage"]
"""The answer itself, PROV-JSON, or a list of run events."""


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
        subject = by or self.core.operator
        return ask_why(entry, request, ports=self.ports(subject), progress=progress, peers=self.peers(subject))

    def why_as(
        self,
        form: WhyForm,
        entry: CatalogEntry,
        request: WhyRequest,
        progress: Callable[[EngineProgress], None] = lambda _: None,
        *,
        by: Subject | None = None,
        namespace: str,
    ) -> object:
        """The same as PROV-JSON or OpenLineage events of the node `namespace`."""
        return self._in_form(self.why(entry, request, progress, by=by), form, namespace, by or self.core.operator)

    def kept(self, job_id: str, form: WhyForm, *, by: Subject, namespace: str) -> object:
        """The answer that a job of the subject keeps. Raises NotFound."""
        core = self.core
        seen_job(job_id, subject=by, access=core.access, jobs=core.ports.jobs)
        job = core.ports.jobs.get(job_id)
        if job is None:
            raise NotFound("job", job_id)
        return self._in_form(kept_answer(job, seen=core.seen_by(by), repository=core.repository), form, namespace, by)

    def columns(self, entry: CatalogEntry, *, by: Subject) -> ColumnsOfDerivative:
        """The columns of inputs behind those of a derivative.

        Raises Determinate if the engine is away.
        """
        core = self.core
        return column_lineage(entry, repository=core.repository, seen=core.seen_by(by), engine=core.ports.engine)

    def corrections(self, entry: CatalogEntry, block: Multihash, data: DataSlice, *, limit: int) -> tuple[Link, ...]:
        """The first corrections and withdrawals of a block, linked."""
        core = self.core
        ports = CorrectionPorts(
            repository=core.repository.recalling(),
            exchange=core.ports.exchange,
            rows_max=core.settings.provenance_rows_max,
        )
        _, state = core.repository.current(entry.id)
        return corrections_of(entry, data, block, state.vocabulary, limit=limit, ports=ports)

    def _in_form(self, answer: dict[str, object], form: WhyForm, namespace: str, by: Subject) -> object:
        match form:
            case "prov":
                return prov_document(answer, lineage=self._lineage_of(answer, by))
            case "openlineage":
                return openlineage_events(answer, namespace=namespace, lineage=self._lineage_of(answer, by))
            case _:
                return answer

    def _lineage_of(self, answer: dict[str, Any], by: Subject) -> dict[str, dict[str, object]]:
        """The lineage of columns of each derivative of an answer that is explained."""
        explained = dict.fromkeys(one["dataset"] for one in answer["records"] if one.get("why") is not None)
        seen = self.core.seen_by(by)
        entries = {dataset: seen.find(parse_dataset_id(dataset)) for dataset in explained}
        return {
            dataset: lineage_value(self.columns(entry, by=by))
            for dataset, entry in entries.items()
            if entry is not None
        }

    def peers(self, subject: Subject) -> PeerPorts:
        """What asking other nodes for this subject works with."""
        core, settings = self.core, self.core.settings
        return PeerPorts(
            subject=subject,
            access=core.access,
            names=RemoteNames(repositories=core.ports.repositories, nodes=core.ports.remote_nodes),
            limits=PeerLimits(
                peers_max=settings.provenance_peers_max,
                hops_max=settings.provenance_peer_hops_max,
                s_max=settings.provenance_peer_s_max,
                job_s_max=settings.provenance_peer_job_s_max,
                bytes_max=settings.provenance_peer_bytes_max,
            ),
        )

    def ports(self, subject: Subject, *, wall_s_max: float | None = None) -> TracePorts:
        """What a trace for this subject works with.

        It may take `wall_s_max` (None: as long as an answer may).
        """
        core, settings = self.core, self.core.settings
        seen = core.seen_by(subject)
        return TracePorts(
            repository=core.repository.recalling(),
            seen=seen,
            histories=core.histories(seen),
            engine=core.ports.engine,
            exchange=core.ports.exchange,
            clock=core.ports.clock,
            limits=TraceLimits(
                rows_max=settings.provenance_rows_max,
                evaluations_max=settings.provenance_evaluations_max,
                records_max=settings.provenance_records_max,
                depth_max=settings.provenance_depth_max,
                wall_s_max=settings.provenance_wall_s_max if wall_s_max is None else wall_s_max,
                blocks_max=settings.chain_blocks_max,
            ),
        )

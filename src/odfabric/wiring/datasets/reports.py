"""Verification reports beside datasets, bound to a node's ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.block_reference import named_block, parse_block
from odfabric.usecases.verification.signed_reports import (
    PublishedReport,
    ReportPorts,
    publish_report,
    published_reports,
    remove_report,
)
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class ReportVerbs:
    """Verbs about signed verification reports."""

    core: NodeCore

    def publish(self, entry: CatalogEntry, data: bytes, *, by: Subject | None = None) -> PublishedReport:
        """Keep a report beside a dataset. Raises as `publish_report`."""
        return publish_report(entry, data, subject=by or self.core.operator, ports=self._ports)

    def of_dataset(self, entry: CatalogEntry) -> Sequence[PublishedReport]:
        """The reports beside a dataset, newest first."""
        return published_reports(entry, ports=self._ports)

    def remove(self, entry: CatalogEntry, number: str, *, by: Subject | None = None) -> None:
        """Take a report away. Raises AccessDenied, NotFound."""
        remove_report(entry, number, subject=by or self.core.operator, ports=self._ports)

    def block(self, entry: CatalogEntry, text: str | None) -> Multihash | None:
        """The block of the chain that a hash or number names; None for None.

        Raises InvalidName, NotFound.
        """
        if text is None:
            return None
        return named_block(entry, parse_block(text), repository=self.core.repository).hash

    @property
    def _ports(self) -> ReportPorts:
        core = self.core
        return ReportPorts(
            access=core.access,
            repository=core.repository,
            objects=core.ports.objects,
            clock=core.ports.clock,
            reports_max=core.settings.reports_per_dataset_max,
        )

"""Changes of a dataset's transform, sources and info, bound to a node's ports.

Owns the binding, like `node`. Each change is a commit, so the outbox gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.manifest import DatasetSnapshot
from odfabric.ports.subscriptions.signals import Topic
from odfabric.settings import Settings
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.set_info import ChangedInfo, InfoEvent, set_info
from odfabric.usecases.ingestion.set_source import ChangedSources, set_source
from odfabric.usecases.rights.access import Access
from odfabric.usecases.transform.set_transform import ChangedTransform, set_transform
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.sources.polling import permitted_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class EditVerbs:
    """Changing verbs of a node, each for one subject."""

    ports: NodePorts
    settings: Settings
    access: Access
    commits: Commits
    seen_by: Callable[[Subject], Repository]

    def set_transform(self, snapshot: DatasetSnapshot, subject: Subject, *, anew: bool = False) -> ChangedTransform:
        """Give a derivative a manifest's transform; with `anew` also its present one."""
        changed = set_transform(
            snapshot,
            subject=subject,
            access=self.access,
            repository=self.seen_by(subject),
            commits=self.commits,
            engine=self.ports.engine,
            exchange=self.ports.exchange,
            clock=self.ports.clock,
            anew=anew,
        )
        self.ports.signals.send(Topic.OUTBOX)
        return changed

    def set_source(self, snapshot: DatasetSnapshot, subject: Subject) -> ChangedSources:
        """Give an existing root dataset the sources of a manifest."""
        changed = set_source(
            snapshot,
            subject=subject,
            access=self.access,
            repository=self.seen_by(subject),
            commits=self.commits,
            engine=self.ports.engine,
            exchange=self.ports.exchange,
            clock=self.ports.clock,
            column_name_bytes_max=self.settings.column_name_bytes_max,
            permitted=permitted_sources(self.settings),
        )
        self.ports.signals.send(Topic.OUTBOX)
        return changed

    def set_info(
        self, entry: CatalogEntry, events: Iterable[InfoEvent], subject: Subject, *, seen: str | None = None
    ) -> ChangedInfo:
        """Change description, licence or documents.

        With `seen` only if that version is in force.
        """
        changed = set_info(
            entry,
            events,
            seen=seen,
            subject=subject,
            access=self.access,
            repository=self.seen_by(subject),
            commits=self.commits,
            clock=self.ports.clock,
        )
        self.ports.signals.send(Topic.OUTBOX)
        return changed

"""Moving datasets between this node and others, bound to its ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from odfabric.domain.people.access import Subject, owner_of
from odfabric.domain.transfer.addressing import named_repository
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import SendWish
from odfabric.model.multihash import Multihash
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.accept_object import accept_object
from odfabric.usecases.transfer.push_remote import SendPorts, Sent
from odfabric.usecases.transfer.remote_names import PushTarget, RemoteNames
from odfabric.usecases.transfer.repositories import RepositoryVerbs
from odfabric.usecases.transfer.search_remote import search_remote
from odfabric.usecases.transfer.send_dataset import SendVerbs, enqueue_send
from odfabric.usecases.transfer.smart_push import SmartPush, smart_push
from odfabric.usecases.transfer.verify_remote import VerifyRemotePorts, verify_remote
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.transfer.smart import smart_peers


@dataclass(frozen=True, slots=True)
class SharingVerbs:
    """Repositories, names of datasets elsewhere, and pushes there."""

    core: NodeCore

    @property
    def repositories(self) -> RepositoryVerbs:
        """Verbs of repositories."""
        return RepositoryVerbs(
            repositories=self.core.ports.repositories,
            access=self.core.access,
            clock=self.core.ports.clock,
            maximum=self.core.settings.repositories_per_account_max,
        )

    @property
    def names(self) -> RemoteNames:
        """What finds out where a dataset elsewhere is."""
        return RemoteNames(repositories=self.core.ports.repositories, nodes=self.core.ports.remote_nodes)

    @property
    def sending(self) -> SendVerbs:
        """What jobs work with."""
        ports, settings = self.core.ports, self.core.settings
        return SendVerbs(
            names=self.names,
            destinations=ports.destinations,
            sending=self._send_ports,
            access=self.core.access,
            audit=ports.audit,
            clock=ports.clock,
            aliases_max=settings.repositories_per_account_max,
            smart=self._push_smart,
        )

    @property
    def _send_ports(self) -> SendPorts:
        return SendPorts(
            heads=self.core.heads.writer,
            repository=self.core.repository,
            exchange=self.core.ports.exchange,
            blocks_max=self.core.settings.chain_blocks_max,
            at_once=self.core.settings.transfers_at_once,
        )

    def _push_smart(self, entry: CatalogEntry, target: PushTarget, request: SendWish, run: JobRun) -> Sent:
        push = SmartPush(url=target.url, force=request.force, visibility=request.visibility)
        peers = smart_peers(self.core.ports, self.core.settings)
        return smart_push(entry, push, run=run, peers=peers, remotes=self.core.ports.remotes, ports=self._send_ports)

    def push(self, entry: CatalogEntry, request: SendWish, *, by: Subject) -> Job:
        """Queue a push."""
        ports = self.core.ports
        job = enqueue_send(
            entry,
            request,
            subject=by,
            access=self.core.access,
            jobs=ports.jobs,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        ports.signals.send(Topic.JOBS)
        return job

    def accept_object(
        self, entry: CatalogEntry, folder: str, name: Multihash, chunks: Iterator[bytes], *, size: int
    ) -> None:
        """Keep an object that a peer uploads before the blocks that name it."""
        self.core.quotas.check_more_bytes(owner_of(entry.alias))
        accept_object(
            entry,
            folder,
            name,
            chunks,
            size=size,
            exchange=self.core.ports.exchange,
            objects=self.core.ports.objects,
            size_max=self.core.settings.object_bytes_max,
        )

    def verify(self, url: str, *, report: Callable[[EngineProgress], None] = lambda _: None) -> Mapping[str, object]:
        """Verify a dataset elsewhere.

        Nothing of it is kept but what was seen of its head log.
        """
        ports, settings = self.core.ports, self.core.settings
        return verify_remote(
            url,
            report=report,
            ports=VerifyRemotePorts(
                remotes=ports.remotes,
                exchange=ports.exchange,
                clock=ports.clock,
                judge=self.core.log_judge,
                blocks_max=settings.chain_blocks_max,
                object_bytes_max=settings.object_bytes_max,
                at_once=settings.transfers_at_once,
                checks_at_once=settings.transfer_checks_at_once,
            ),
        )

    def search(self, name: str, words: str, *, by: Subject) -> list[dict[str, object]]:
        """Datasets of a repository that the subject knows.

        Raises NotFound, Unauthenticated, AccessDenied.
        """
        known = self.repositories.listed(by=by)
        repository = named_repository(parse_name(name, type_name="RepoName"), known)
        return search_remote(
            repository,
            words,
            stores=self.core.ports.remote_stores,
            nodes=self.core.ports.remote_nodes,
            listing_max=self.core.settings.repository_listing_max,
        )

"""The Smart Transfer Protocol in both roles, bound to the ports of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject, owner_of
from odfabric.errors import NotFound, Unauthenticated
from odfabric.formats.identifiers.references import parse_name
from odfabric.formats.smart.block_archive import ArchiveLimits
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import ObjectFile, ObjectUrl
from odfabric.ports.subscriptions.signals import Topic
from odfabric.ports.transfer.conversations import Conversation
from odfabric.settings import Settings
from odfabric.usecases.transfer.accept_smart_push import AcceptPushPorts, accept_smart_push
from odfabric.usecases.transfer.pull_dataset import PullRights
from odfabric.usecases.transfer.receive_chain import ReceivePorts
from odfabric.usecases.transfer.serve_objects import ReferredObjects, serve_object
from odfabric.usecases.transfer.serve_smart_pull import ServePullPorts, serve_smart_pull
from odfabric.usecases.transfer.smart_parts import AREAS, SmartLimits
from odfabric.usecases.transfer.smart_pull import SmartPeers
from odfabric.usecases.transfer.timed_conversation import TransferPace
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.node_ports import NodePorts

ObjectPlace = Callable[[str, Multihash], ObjectUrl]
"""Where the node itself reads and takes an object of a folder of the dataset that is talked of."""


def smart_limits(settings: Settings, ports: NodePorts) -> SmartLimits:
    """From the table of all limits, and the clock of the ports."""
    return SmartLimits(
        archive=ArchiveLimits(
            blocks_max=settings.chain_blocks_max,
            block_bytes_max=settings.block_bytes_max,
            bytes_max=settings.smart_archive_bytes_max,
        ),
        message_bytes_max=settings.smart_message_bytes_max,
        frame_bytes_max=settings.smart_frame_bytes_max,
        pace=TransferPace(
            base_s=settings.smart_transfer_s,
            bytes_per_s_min=settings.smart_transfer_bytes_per_s_min,
            total_s_max=settings.smart_transfer_s_max,
            seconds=ports.monotonic_s,
        ),
        wait_s_max=settings.smart_wait_s_max,
        objects_wait_s_max=settings.smart_objects_wait_s_max,
        progress_s=settings.smart_progress_s,
    )


def smart_peers(ports: NodePorts, settings: Settings) -> SmartPeers:
    """How this node talks to others."""
    return SmartPeers(
        conversations=ports.conversations,
        linked=ports.linked_objects,
        limits=smart_limits(settings, ports),
        nodes=ports.remote_nodes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SmartVerbs:
    """The server's side."""

    core: NodeCore
    referred: ReferredObjects
    receiving: ReceivePorts

    def may_pull(self, subject: Subject, account: str, dataset: str) -> CatalogEntry:
        """A dataset that the subject may read. Raises NotFound, AccessDenied."""
        return self.core.access.find(subject, Action.READ, account, dataset)

    def may_push(self, subject: Subject, account: str, dataset: str) -> DatasetAlias:
        """The alias of a dataset that the subject may write, or make if it is missing.

        Raises Unauthenticated for strangers, AccessDenied, NotFound for a dataset that may not be read and for an account that is not there,
        InvalidName.
        """
        if subject.account is None:
            raise Unauthenticated(
                "a push needs a token", hint="log in (`odf login`), or send `Authorization: Bearer TOKEN`"
            )
        shown = f"{account}/{dataset}"
        try:
            return self.core.access.find(subject, Action.WRITE, account, dataset).alias
        except NotFound:
            alias = DatasetAlias(parse_name(account, type_name="AccountName"), parse_name(dataset))
            owner = owner_of(alias)
            # The same refusal whether it is there and hidden or not there.
            self.core.access.require_here(subject, Action.CREATE, under=owner, shown=shown)
            if self.core.repository.find(alias) is not None:
                raise
            if self.core.access.accounts.by_name(owner) is None:
                raise NotFound("account", account, hint="make it first, or name another one") from None
            return alias

    def check_push(self, subject: Subject, alias: DatasetAlias) -> None:
        """Check the owner's room for a push, besides what `may_push` checks.

        Raises LimitExceeded where the owner's space or datasets are used up, and as `may_push`.
        """
        rights = PullRights(subject=subject, access=self.core.access, quotas=self.core.quotas)
        rights.check_copy(alias, self.core.repository.find(alias))

    def serve_pull(
        self, talk: Conversation, entry: CatalogEntry, *, place: ObjectPlace, check: Callable[[], None]
    ) -> None:
        """Hold a conversation with who pulls.

        `check` raises if they may not read any more.
        """

        def link_of(file: ObjectFile) -> ObjectUrl:
            area, life_s = AREAS[file.kind], self.core.settings.smart_link_s
            linked = life_s if self.core.settings.object_link_s > 0 else 0
            served = serve_object(entry, area, file.physical_hash, referred=self.referred, link_s=linked)
            if served.link is None:
                return place(area, file.physical_hash)
            expires = Instant(self.core.ports.clock.now().epoch_ns + life_s * NANOS_PER_SECOND)
            return ObjectUrl(url=served.link, expires_at=expires.truncated_to_millis())

        ports = ServePullPorts(
            repository=self.core.repository,
            link_of=link_of,
            check=check,
            limits=smart_limits(self.core.settings, self.core.ports),
        )
        serve_smart_pull(self.core.ports.begun_by_peer(talk), entry, ports=ports)

    def accept_push(
        self,
        talk: Conversation,
        alias: DatasetAlias,
        *,
        place: ObjectPlace,
        subject_now: Callable[[], Subject],
        by: Subject,
    ) -> None:
        """Hold a conversation with who pushes.

        `subject_now` finds out again who that is, and raises if they do not count any more.
        """

        def check(force: bool) -> None:
            rights = PullRights(subject=subject_now(), access=self.core.access, quotas=self.core.quotas)
            rights.check_copy(alias, self.core.repository.find(alias), force=force)

        ports = AcceptPushPorts(
            receiving=self.receiving,
            exchange=self.core.ports.exchange,
            upload_to=lambda file: place(AREAS[file.kind], file.physical_hash),
            check=check,
            actor=by.actor,
            limits=smart_limits(self.core.settings, self.core.ports),
        )
        try:
            accept_smart_push(self.core.ports.begun_by_peer(talk), alias, ports=ports)
        finally:
            self.core.ports.signals.send(Topic.OUTBOX)

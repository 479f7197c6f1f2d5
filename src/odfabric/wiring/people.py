"""The ports and limits of the verbs about people, from those of a node."""

from __future__ import annotations

from odfabric.domain.passwords import PasswordRules
from odfabric.settings import Settings
from odfabric.usecases.access import Access
from odfabric.usecases.people.ports import PeopleLimits, PeoplePorts
from odfabric.wiring.node_ports import NodePorts


def people_ports(ports: NodePorts, access: Access, settings: Settings) -> PeoplePorts:
    """What the verbs about people of this node work with."""
    return PeoplePorts(
        access=access,
        accounts=ports.accounts,
        relations=ports.relations,
        tokens=ports.tokens,
        invitations=ports.invitations,
        devices=ports.devices,
        audit=ports.audit,
        passwords=ports.passwords,
        password_rules=PasswordRules(
            characters_min=settings.password_characters_min, bytes_max=settings.password_bytes_max
        ),
        keys=ports.keys,
        clock=ports.clock,
        entropy=ports.entropy,
        limits=PeopleLimits(
            session_s=settings.session_s,
            device_s=settings.device_s,
            device_interval_s=settings.device_interval_s,
            device_authorisations_max=settings.device_authorisations_max,
            invitation_s=settings.invitation_s,
            tokens_per_account_max=settings.tokens_per_account_max,
            collaborators_max=settings.collaborators_max,
            members_max=settings.members_max,
            organisations_per_account_max=settings.organisations_per_account_max,
            refusals_window_s=settings.refusals_window_s,
        ),
    )

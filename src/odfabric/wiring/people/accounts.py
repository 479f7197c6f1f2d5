"""The ports and limits of the verbs about people, from those of a node."""

from __future__ import annotations

from odfabric.settings import Settings
from odfabric.usecases.people.ports import PeopleLimits, PeoplePorts
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import AccountDefaults, AccountQuotas
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.people.sign_in import password_rules


def account_quotas(ports: NodePorts, settings: Settings) -> AccountQuotas:
    """The limits of accounts."""
    return AccountQuotas(
        accounts=ports.accounts,
        usage=ports.usage,
        rate_limits=ports.rate_limits,
        defaults=AccountDefaults(
            datasets_max=settings.account_datasets_max,
            stored_bytes_max=settings.account_stored_bytes_max,
            pushes_per_minute_max=settings.account_pushes_per_minute_max,
            queries_at_once_max=settings.account_queries_at_once_max,
        ),
    )


def people_ports(ports: NodePorts, access: Access, settings: Settings) -> PeoplePorts:
    """What the verbs about people of this node work with."""
    return PeoplePorts(
        access=access,
        accounts=ports.accounts,
        relations=ports.relations,
        tokens=ports.tokens,
        invitations=ports.invitations,
        devices=ports.devices,
        saved_queries=ports.saved_queries,
        audit=ports.audit,
        passwords=ports.passwords,
        rate_limits=ports.rate_limits,
        password_rules=password_rules(settings),
        keys=ports.keys,
        clock=ports.clock,
        entropy=ports.entropy,
        limits=PeopleLimits(
            session_s=settings.session_s,
            device_s=settings.device_s,
            device_interval_s=settings.device_interval_s,
            device_authorisations_max=settings.device_authorisations_max,
            invitation_s=settings.invitation_s,
            opening_link_s=settings.opening_link_s,
            tokens_per_account_max=settings.tokens_per_account_max,
            saved_queries_per_account_max=settings.saved_queries_per_account_max,
            query_text_bytes_max=settings.query_text_bytes_max,
            collaborators_max=settings.collaborators_max,
            members_max=settings.members_max,
            organisations_per_account_max=settings.organisations_per_account_max,
            refusals_window_s=settings.refusals_window_s,
            sign_ins_per_address_max=settings.sign_ins_per_address_max,
            sign_ins_per_account_max=settings.sign_ins_per_account_max,
            sign_in_window_s=settings.sign_in_window_s,
        ),
    )

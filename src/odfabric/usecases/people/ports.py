"""Ports of the verbs about people, and their audit entries."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.domain.people.passwords import PasswordRules
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind, AuditOutcome
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.people.accounts import Accounts, Relations
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.credentials import DeviceAuthorisations, Invitations, Tokens
from odfabric.ports.people.passwords import Passwords
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.ports.people.saved_queries import SavedQueries
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleLimits:
    """Limits of the verbs about people; see the settings of the same names."""

    session_s: float
    device_s: float
    device_interval_s: int
    device_authorisations_max: int
    invitation_s: float
    opening_link_s: float
    tokens_per_account_max: int
    saved_queries_per_account_max: int
    query_text_bytes_max: int
    collaborators_max: int
    members_max: int
    organisations_per_account_max: int
    refusals_window_s: float
    sign_ins_per_address_max: int
    sign_ins_per_account_max: int
    sign_in_window_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePorts:
    """Everything that the verbs about people work with."""

    access: Access
    accounts: Accounts
    relations: Relations
    tokens: Tokens
    invitations: Invitations
    devices: DeviceAuthorisations
    saved_queries: SavedQueries
    audit: AuditLog
    passwords: Passwords
    password_rules: PasswordRules
    rate_limits: RateLimits
    keys: DatasetKeys
    clock: Clock
    entropy: Entropy
    limits: PeopleLimits

    def entry(
        self,
        kind: AuditKind,
        by: Subject | Actor,
        *,
        target: str | None = None,
        dataset: DatasetId | None = None,
        outcome: AuditOutcome = AuditOutcome.DONE,
        **detail: str | None,
    ) -> AuditEntry:
        """What the audit says of a change that `by` makes now.

        Details of None are left out.
        """
        return AuditEntry(
            kind=kind,
            actor=by.actor if isinstance(by, Subject) else by,
            at=self.clock.now(),
            target=target,
            dataset=dataset,
            outcome=outcome,
            detail={name: value for name, value in detail.items() if value is not None},
        )

    def later(self, seconds: float) -> Instant:
        """An instant so many seconds from now."""
        return Instant(self.clock.now().epoch_ns + int(seconds * 1_000_000_000))

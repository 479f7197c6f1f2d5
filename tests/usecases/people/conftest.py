"""A node with a few people: users ann and bob, organisation acme.

ann is the admin of acme; local is the node's admin.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from odfabric.domain.people.access import STRANGER, Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import Name
from odfabric.model.people.account import Account
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.people.accounts import create_account
from odfabric.usecases.people.organisations import create_organisation
from odfabric.usecases.people.ports import PeoplePorts
from tests.usecases.manifests import ROOT

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True, slots=True)
class People:
    """The node, and its people by name."""

    memory: MemoryNode

    @property
    def ports(self) -> PeoplePorts:
        return self.memory.node.people

    @property
    def operator(self) -> Subject:
        return self.memory.node.operator

    @property
    def stranger(self) -> Subject:
        return STRANGER

    def account(self, name: str) -> Account:
        found = self.ports.accounts.by_name(Name(name))
        assert found is not None
        return found

    def subject(self, name: str) -> Subject:
        return self.memory.node.access.subject(self.account(name))

    def add(self, owner: str, name: str = "readings") -> CatalogEntry:
        """A private dataset of theirs."""
        return self.memory.add(ROOT.replace("name: readings", f"name: {owner}/{name}"))

    def kinds(self) -> list[str]:
        """What the audit says, oldest first."""
        return [stored.entry.kind.value for stored in self.ports.audit.page(limit=1000)]


@pytest.fixture
def people(tmp_path: Path) -> People:
    found = People(MemoryNode(tmp_path))
    for name in ("ann", "bob"):
        create_account(name, display_name=None, email=None, subject=found.operator, ports=found.ports)
    create_organisation("acme", display_name="Acme", email=None, subject=found.subject("ann"), ports=found.ports)
    return found

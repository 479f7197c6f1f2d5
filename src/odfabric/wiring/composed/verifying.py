"""Verification for anyone who looks at a page, bound to a node's ports."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.verification.verify_block import BlockCheck, LastVerification, last_verification, verify_block
from odfabric.wiring.node import Node


@dataclass(frozen=True, slots=True)
class VerifyVerbs:
    """What pages say of verification."""

    node: Node

    def block(self, entry: CatalogEntry, wanted: Multihash, *, by: Subject) -> list[BlockCheck]:
        """Checks of one block and its objects, as they are stored. Raises NotFound."""
        ports = self.node.ports
        repository = copy(self.node.seen_by(by))
        repository.objects = ports.stored or ports.objects
        return verify_block(entry, wanted, now=ports.clock.now(), repository=repository, exchange=ports.exchange)

    def last(self, entry: CatalogEntry, *, by: Subject) -> LastVerification | None:
        """The last finished verification of a dataset, as far as its newest jobs tell."""
        return last_verification(entry, repository=self.node.seen_by(by), jobs=self.node.ports.jobs)

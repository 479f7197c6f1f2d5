"""Change a dataset's info: description and keywords, licence, documents (readme).

Invariant: only what differs from what is in force is committed, and with `seen` nothing at all if somebody else changed it since: who
edits a text does not undo another's. Rows, sources and transforms are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from odfabric.domain.chain.append import link_blocks, next_system_time
from odfabric.domain.chain.state import ChainState
from odfabric.domain.people.access import Action, Subject
from odfabric.errors import Changed, InvalidManifest, InvalidRequest
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.metadata import MetadataEvent, SetAttachments, SetInfo, SetLicense
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of
from odfabric.usecases.rights.access import Access

InfoEvent: TypeAlias = SetInfo | SetLicense | SetAttachments
_KINDS = (SetInfo, SetLicense, SetAttachments)


@dataclass(frozen=True, slots=True)
class ChangedInfo:
    """`result` None: the dataset says so already."""

    entry: CatalogEntry
    result: CommitResult | None

    def to_value(self, head: Head) -> dict[str, object]:
        """As JSON, `head` being the dataset's."""
        blocks = [] if self.result is None else [str(block) for block in self.result.blocks]
        return {"id": str(self.entry.id), "alias": str(self.entry.alias), "head": str(head.hash), "blocks": blocks}


def info_events(events: Iterable[MetadataEvent]) -> tuple[InfoEvent, ...]:
    """What a manifest says of the dataset, of several events of a kind the last.

    Raises InvalidManifest if it says nothing.
    """
    found = {type(event): event for event in events if isinstance(event, _KINDS)}
    if not found:
        raise InvalidManifest(
            "the manifest says nothing of the dataset", hint="it has SetInfo, SetLicense or SetAttachments"
        )
    return tuple(found.values())


def info_version(state: ChainState) -> str:
    """A version that changes with the dataset's info and with nothing else."""
    told = (state.info, state.license, state.attachments)
    return sha256(" ".join(str(each.block_hash) if each else "-" for each in told).encode()).hexdigest()[:16]


def set_info(
    entry: CatalogEntry,
    events: Iterable[InfoEvent],
    *,
    seen: str | None = None,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
    clock: Clock,
) -> ChangedInfo:
    """Commit the events that are not in force.

    `seen` is the version that a form was made from.

    Raises Changed if another version is in force, InvalidRequest for a copy, InvalidBlock for an event that the chain does not admit.
    """
    access.require(subject, Action.WRITE, entry)
    if entry.is_copy:
        raise InvalidRequest(f"{entry.alias} is a copy", hint="its owner changes it, and a pull brings the change")
    wanted = tuple(events)

    def build(base: Head) -> PlannedCommit | None:
        state = repository.state(entry.id, base.hash)
        if seen is not None and seen != info_version(state):
            raise Changed(
                "somebody else has changed these texts since you opened them",
                hint="compare with what is there now, and save again",
            )
        told = (state.info, state.license, state.attachments)
        in_force = [each.event for each in told if each is not None]
        changed = [event for event in wanted if event not in in_force]
        if not changed:
            return None
        return PlannedCommit(tuple(link_blocks(state, changed, system_time=next_system_time(state, now=clock.now()))))

    committed = commits.commit(entry.id, build, by=[subject.actor])
    return ChangedInfo(entry, None if committed is None else result_of(committed))

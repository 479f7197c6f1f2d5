"""Two nodes that speak the Smart protocol in one process: its tests begin here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from odfabric.domain.people.access import Subject
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.smart import VERSION_HEADER, ObjectUrl
from odfabric.ports.transfer.conversations import Conversation
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.transfer.sharing import BYTES_MAX, Parties, ended

NODE = "odf+http://theirs.example/"
PLACE = f"{NODE}local/readings/"
SERVED = "odf+http://ours.example/local/readings/"

Around = Callable[[Conversation], Conversation]
"""What stands between a conversation and who holds it."""


class SmartParties(Parties):
    """`ours` has a dataset.

    `theirs` pulls it from there, or `ours` pushes it there, each the server of the other.
    """

    def __init__(self, folder: Path, *, seed: int = 1) -> None:
        super().__init__(folder, seed=seed)
        self.around: Around = lambda talk: talk
        self.answers = Answers(self.ours, "local/readings")
        self.takes = Answers(self.theirs, "local/readings")
        self.theirs.conversations.serve(SERVED, "pull", lambda talk: self.answers.pull(self.around(talk)))
        self.ours.conversations.serve(PLACE, "push", lambda talk: self.takes.push(self.around(talk)))
        self.theirs.linked_objects.serve("http://ours/", self.answers.read, self.answers.write)
        self.ours.linked_objects.serve("http://theirs/", self.takes.read, self.takes.write)
        self.ours.remotes.publish_store(PLACE, self.theirs.objects, prefix=dataset_prefix(self.entry.id))

    def smart_pull(self, *, force: bool = False, url: str = SERVED) -> dict[str, Any]:
        """Pull from `ours`; the result, or the problem with its `code`."""
        alias = DatasetAlias(Name("local"), Name("copy"))
        request = PullRequest(dataset=None, alias=alias, url=url, force=force)
        return ended(self.theirs, self.theirs.node.requests.pull(request))

    def smart_push(
        self, *, force: bool = False, to: str = PLACE, visibility: Visibility = Visibility.PRIVATE
    ) -> dict[str, Any]:
        """Push to `theirs`; the result, or the problem with its `code`."""
        node = self.ours.node
        request = SendWish(to=to, force=force, visibility=visibility)
        return ended(self.ours, node.sharing.push(self.entry, request, by=node.operator))

    def check_both(self) -> None:
        """Both nodes have the same head and the same bytes."""
        assert self.theirs.node.datasets.head(self.copy) == self.ours.node.datasets.head(self.entry)
        prefix = dataset_prefix(self.entry.id)
        for area in ("blocks/", "data/", "checkpoints/"):
            ours = {key: self.ours.objects.read_bytes(key, size_max=BYTES_MAX) for key in self._keys(prefix + area)}
            for key, data in ours.items():
                assert self.theirs.objects.read_bytes(key, size_max=BYTES_MAX) == data

    def _keys(self, prefix: str) -> list[str]:
        return list(self.ours.objects.keys(prefix))


class Answers:
    """A node as the server of one dataset, with the rights of its operator."""

    def __init__(self, node: MemoryNode, path: str) -> None:
        self.party = node
        self.account, _, self.name = path.partition("/")
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        self.host = "ours" if path and node.seed == 1 else "theirs"

    def pull(self, talk: Conversation) -> None:
        node = self.party.node
        node.smart.serve_pull(talk, self._entry(), place=self.place, check=lambda: None)

    def push(self, talk: Conversation) -> None:
        node = self.party.node
        by = node.operator
        alias = node.smart.may_push(by, self.account, self.name)
        node.smart.accept_push(talk, alias, place=self.place, subject_now=lambda: self.now(by), by=by)

    def now(self, by: Subject) -> Subject:
        return by

    def place(self, area: str, name: Multihash) -> ObjectUrl:
        return ObjectUrl(url=f"http://{self.host}/{area}/{name}", headers=((VERSION_HEADER, "1"),))

    def read(self, url: ObjectUrl) -> bytes:
        area, name = url.url.split("/")[-2:]
        self.reads.append(name)
        with self.party.node.serving.object(self._entry(), area, parse_multihash(name)).open() as stream:
            return stream.read()

    def write(self, url: ObjectUrl, data: bytes) -> None:
        area, name = url.url.split("/")[-2:]
        self.before_write()
        self.party.node.sharing.accept_object(self._entry(), area, parse_multihash(name), iter([data]), size=len(data))
        self.writes.append(name)

    def _entry(self) -> CatalogEntry:
        return self.party.node.datasets.resolve(DatasetAlias(Name(self.account), Name(self.name)))

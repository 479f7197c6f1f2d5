"""Objects of a chain that a Smart server links to, asked for when needed.

All that are missing are asked for at once.

Invariant: what arrives is hashed by `receive_objects` as anything else is; a link that has expired, or was not given, is asked for once more.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.errors import NotFound
from odfabric.formats.smart.pull_messages import read_downloads, write_objects_wanted
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import ObjectFile, ObjectKind, ObjectUrl
from odfabric.ports.node.clock import Clock
from odfabric.ports.transfer.conversations import Conversation, LinkedObjects
from odfabric.usecases.transfer.smart_parts import KINDS, OBJECTS_AT_ONCE_MAX, heard, say


@dataclass(slots=True, kw_only=True)
class SmartObjects:
    """An `ObjectSource`. `missing` are those that will be wanted, oldest first."""

    talk: Conversation
    missing: Sequence[ObjectFile]
    linked: LinkedObjects
    clock: Clock
    wait_s_max: float
    shown: str
    _urls: dict[tuple[ObjectKind, Multihash], ObjectUrl] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """See `ObjectSource`."""
        source = self._url(ObjectFile(KINDS[folder], object_hash, size_max))
        return self.linked.download(source, name=str(object_hash), size_max=size_max, into=into)

    def _url(self, file: ObjectFile) -> ObjectUrl:
        key = (file.kind, file.physical_hash)
        with self._lock:
            if not self._is_good(key):
                self._ask(self._portion(file))
            if not self._is_good(key):
                self._ask([file])
            if key not in self._urls:
                raise NotFound("object", str(file.physical_hash))
            return self._urls[key]

    def _is_good(self, key: tuple[ObjectKind, Multihash]) -> bool:
        url = self._urls.get(key)
        return url is not None and (url.expires_at is None or url.expires_at > self.clock.now())

    def _portion(self, file: ObjectFile) -> list[ObjectFile]:
        """The object and those that are wanted after it."""
        at = next((number for number, each in enumerate(self.missing) if each == file), None)
        return [file] if at is None else list(self.missing[at : at + OBJECTS_AT_ONCE_MAX])

    def _ask(self, files: Sequence[ObjectFile]) -> None:
        say(self.talk, write_objects_wanted(files), shown=self.shown)
        answer = heard(self.talk, read_downloads, seconds_max=self.wait_s_max, shown=self.shown)
        asked = {(each.kind, each.physical_hash) for each in files}
        for each in answer:
            key = (each.file.kind, each.file.physical_hash)
            if key in asked:
                self._urls[key] = each.source

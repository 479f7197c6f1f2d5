"""Containers that are functions of a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from odfabric.errors import InvalidManifest, Place
from odfabric.ports.sources.containers import ContainerAnswer, ContainerRun

Printed = tuple[bytes, ContainerAnswer]


class MemoryContainers:
    """A ContainerSource over `by_image`; each run is kept."""

    def __init__(self) -> None:
        self.by_image: dict[str, Callable[[ContainerRun], Printed]] = {}
        self.runs: list[ContainerRun] = []

    def fetch(self, run: ContainerRun, into: Path) -> ContainerAnswer:
        """See the port."""
        image = self.by_image.get(run.image)
        if image is None:
            raise InvalidManifest(f"this node does not run the image {run.image}", place=Place(field="fetch.image"))
        self.runs.append(run)
        printed, answer = image(run)
        into.write_bytes(printed)
        return answer

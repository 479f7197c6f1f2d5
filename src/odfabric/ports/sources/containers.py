"""Container images that fetch data.

What they print is the data, what they write beside it is the new source state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

OUTPUT_FOLDER = "/opt/odf/out"
"""Where a container writes the files of the protocol: `new-etag`, `new-last-modified`, `new-has-more-data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """What is run.

    `command` replaces the image's entry point if it is not empty; `environment` is all that the container is given.
    """

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAnswer:
    """A container's outcome: bytes printed, and texts of the protocol's files.

    None for a file that was not written.
    """

    size: int
    new_etag: str | None = None
    new_last_modified: str | None = None
    has_more: bool = False


class ContainerSource(Protocol):
    """Runs containers, each with an empty `OUTPUT_FOLDER` of its own."""

    def fetch(self, run: ContainerRun, into: Path) -> ContainerAnswer:
        """Run a container to its end.

        What it prints becomes `into`, a new file that does not exist after a failure.

        Raises InvalidManifest for an image that the operator does not permit or that has no such name; InvalidData, with the beginning
        of what it wrote to its error output, if it fails; LimitExceeded for time and output; Determinate if the engine fails.
        """

"""Programs that are functions of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from odfabric.errors import InvalidData, InvalidManifest, Place

Program = Callable[[Sequence[str], bytes], bytes]
"""From arguments and input to output. What a ValueError says is what the program says when it fails."""


class MemoryPrograms:
    """A PreparePrograms over `by_name`."""

    def __init__(self) -> None:
        self.by_name: dict[str, Program] = {}

    def run(self, command: Sequence[str], source: Path, into: Path) -> None:
        """See the port."""
        program = self.by_name.get(command[0] if command else "")
        if program is None:
            raise InvalidManifest("this node does not run it", place=Place(field="prepare.command"))
        try:
            output = program(command[1:], source.read_bytes())
        except ValueError as error:
            raise InvalidData(f"{command[0]} has failed: {error}", place=Place(field="prepare.command")) from None
        into.write_bytes(output)

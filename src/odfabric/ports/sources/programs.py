"""Operator programs that prepare fetched data: bytes in, bytes out, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class PreparePrograms(Protocol):
    """Runs the `Pipe` steps of polling sources."""

    def run(self, command: Sequence[str], source: Path, into: Path) -> None:
        """Run a command with `source` as its input.

        What it writes becomes `into`, a new file that does not exist after a failure.

        Raises InvalidManifest for a program that the operator does not permit; InvalidData, with the beginning of what it wrote to its
        error output, if it fails; LimitExceeded for time and output; Determinate if it cannot be run here.
        """

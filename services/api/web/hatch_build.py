"""Hatch hook: builds the console's scripts into `odfabric_api/web/built`."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ScriptsHook(BuildHookInterface[Any]):
    """A wheel contains its scripts: users of a wheel cannot build them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build into a folder that `finalize` removes.

        An editable installation reads the checkout's own.
        """
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="odfabric-web-")
        built = Path(self._folder.name) / "built"
        made = subprocess.run([sys.executable, str(Path(self.root) / "services/api/web/make.py"), str(built)])
        if made.returncode != 0:
            raise RuntimeError("the console's scripts could not be built (see above); npm's registry must be reachable")
        build_data["force_include"][str(built)] = "odfabric_api/web/built"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if version != "editable":
            self._folder.cleanup()

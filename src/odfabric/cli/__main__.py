"""`python -m odfabric.cli`: what `./odf` and an installed package's `odf` run."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from odfabric.cli.app import main
from odfabric.garbage import collect_rarely


def run() -> None:
    """One command of an installed package, by the arguments of this process.

    Ends it with the exit code.
    """
    # One archive of the engine's classes serves all workspaces of a user; making it costs a core for half a minute.
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    os.environ.setdefault("ODF_ENGINE_CACHE", str(Path(caches) / "odfabric" / "engine"))
    _begin()


def _begin() -> NoReturn:
    collect_rarely()
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    _begin()

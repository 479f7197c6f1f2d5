"""Where the database of a node is.

Apart from `stores`, for commands that ask nothing else need no adapter for that.
"""

from __future__ import annotations

from pathlib import Path

from odfabric.settings import Settings

DATABASE_FILE = "odf.sqlite3"


def database_place(settings: Settings) -> str | Path:
    """URL of the database that was named, else the file of the workspace."""
    return settings.database_url or settings.workspace.absolute() / DATABASE_FILE


def is_workspace(settings: Settings) -> bool:
    """Whether `odf init` (or a start of the node) has been here.

    A database elsewhere needs no workspace.
    """
    return settings.database_url is not None or (settings.workspace / DATABASE_FILE).is_file()

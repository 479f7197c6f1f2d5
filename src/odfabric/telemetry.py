"""Logging of the node's processes: one line a record on standard error, control characters escaped, no secrets.

Owns format and level; what is logged never holds tokens, keys or bodies, because errors do not carry them.
"""

from __future__ import annotations

import logging
import os
import sys


class _OneLine(logging.Formatter):
    """Text that strangers chose must not be able to forge a line or drive a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
        )


def start_logging(process: str) -> None:
    """Send records of this process to standard error. `ODF_LOG_LEVEL` sets the level (default INFO)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"%(asctime)s {process} %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=os.environ.get("ODF_LOG_LEVEL", "INFO").upper(), handlers=[handler], force=True)
    # Their request lines would repeat URLs, and URLs may hold what is not ours to log.
    for chatty in ("httpx", "httpcore", "alembic", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

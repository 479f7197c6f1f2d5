"""Options that name moments: `--as-at` and `--as-of`."""

from __future__ import annotations

import typer

from odfabric.formats.identifiers.moments import parse_event_moment, parse_system_moment

AS_AT = typer.Option(
    "",
    "--as-at",
    help="What was known then: a block by its number or hash, or an RFC 3339 time for the last block at or before it",
)
AS_OF = typer.Option("", "--as-of", help="What held then: an RFC 3339 time, compared with the rows' event times")


def system_moment(text: str) -> str | None:
    """The value of `--as-at`, None if it was not given. Raises InvalidRequest."""
    if text:
        parse_system_moment(text, field="--as-at")
    return text or None


def event_moment(text: str) -> str | None:
    """The value of `--as-of`, None if it was not given. Raises InvalidRequest."""
    if text:
        parse_event_moment(text, field="--as-of")
    return text or None

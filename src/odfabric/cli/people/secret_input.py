"""Passwords and tokens that a command reads, never arguments.

Hidden on a terminal, lines of standard input in a pipe.
"""

from __future__ import annotations

import sys

from odfabric.errors import InvalidRequest, Place

CHARACTERS_MAX = 4096


def read_secret(what: str, *, option: str) -> str:
    """The next line of standard input. Raises InvalidRequest if there is none."""
    line = sys.stdin.readline(CHARACTERS_MAX).rstrip("\r\n")
    if not line:
        raise InvalidRequest(
            f"standard input has no line with {what}", place=Place(field=option), hint="one line, nothing else in it"
        )
    return line


def asked_secret(what: str, *, may_be_empty: bool = False) -> str:
    """A secret that is asked for on a terminal, and is the next line in a pipe.

    Raises InvalidRequest if there is none.
    """
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass(f"{what}: ")
    if may_be_empty:
        return sys.stdin.readline(CHARACTERS_MAX).rstrip("\r\n")
    return read_secret(what, option="standard input")

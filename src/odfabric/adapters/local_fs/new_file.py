"""Reading a regular file, and writing a new one that is whole or absent.

Owns two contexts for files that pass from one step to the next in a session; such files need not survive a power cut.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from odfabric.errors import Determinate, InvalidData, NotFound, Place


@contextmanager
def regular_file(path: Path) -> Iterator[BinaryIO]:
    """A stream over a regular file.

    Raises InvalidData for links, pipes and the like, NotFound, Determinate.
    """
    try:
        # A pipe in the place of the file would hold us up for ever without O_NONBLOCK.
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound("file", path.name) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidData("a link is not read", place=Place(file=path.name)) from None
        raise Determinate(f"{path.name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InvalidData("not a regular file", place=Place(file=path.name))
    with os.fdopen(opened, "rb") as file:
        yield file


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A stream into a new file, which is removed again if the context fails.

    Raises Determinate if it cannot be written.
    """
    try:
        file = path.open("xb")
    except OSError as error:
        raise Determinate(f"{path.name} cannot be written: {error.strerror}") from error
    try:
        yield file
        file.close()
    except BaseException as error:
        with suppress(OSError):
            file.close()
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Determinate(f"{path.name} cannot be written: {error.strerror}") from error
        raise

"""Errors of the storage library as leaves of our tree.

Owns the translation. A refusal that a correct caller must expect is answered where it can arise, so what comes here of that kind is a
bug or a race that another attempt decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odfabric import errors
from odfabric_persist import errors as persist


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raises Corrupt (of `name`), Indeterminate or Determinate for library errors.

    UsageError is a bug, unless the columns have changed meanwhile.
    """
    try:
        yield
    except persist.Corrupt as error:
        raise errors.Corrupt(error.message, object_name=name) from error
    except persist.Indeterminate as error:
        raise errors.Indeterminate(error.message) from error
    except persist.UsageError as error:
        if error.kind != "codec-mismatch":
            raise
        raise errors.Determinate("another process has given this further columns") from error
    except (persist.LocationError, persist.Refusal) as error:
        raise errors.Determinate(error.message) from error

"""Ends with the process that started us, even if that one was killed."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable


def end_with_owner(owner_pid: int, on_gone: Callable[[], None]) -> None:
    """Call `on_gone` from a thread of its own once the process has ended.

    At once if it is not there now.
    """
    try:
        owner = os.pidfd_open(owner_pid)
    except ProcessLookupError:
        on_gone()
        return

    def wait() -> None:
        # A pid descriptor becomes readable when its process ends; it never means another process that got the number.
        watched = select.poll()
        watched.register(owner, select.POLLIN)
        watched.poll()
        os.close(owner)
        on_gone()

    threading.Thread(target=wait, name="owner", daemon=True).start()

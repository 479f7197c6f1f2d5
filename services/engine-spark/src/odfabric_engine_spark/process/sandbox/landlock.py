"""Landlock: the paths that a process may touch, without any privilege.

Owns the ruleset. Invariant: what no rule names cannot be opened, made or removed; nobody may make links, devices or pipes, which
the coordinator could stumble over. Opening by TCP port is not restricted: the ports between Python and JVM are chosen by chance,
so the network is shut by its namespace or not at all.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from odfabric_engine_spark.process.sandbox.kernel import system_call

_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_FOLDER, _MAKE_FILE, _MAKE_SOCKET = 1 << 7, 1 << 8, 1 << 9
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_OF_VERSION = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _DEVICE_CONTROL}
_SCOPES = 0b11
"""Signals and abstract sockets of processes outside (since version 6)."""

READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_CHANGE = _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _MAKE_SOCKET
WRITE = _READ_FILE | _READ_FOLDER | _WRITE_FILE | _TRUNCATE | _REFER | _CHANGE
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL


def version() -> int:
    """The version that the kernel speaks, 0 if it has none."""
    try:
        return system_call("landlock", _SYS_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))
    except OSError:
        return 0


def restrict(*, read: Iterable[Path], listed: Iterable[Path], write: Iterable[Path]) -> None:
    """Shuts this process and its children in.

    It must gain nothing by execution any more. Raises OSError.
    """
    spoken = version()
    handled = sum(rights for since, rights in _RIGHTS_OF_VERSION.items() if since <= spoken)
    request = struct.pack("QQQ", handled, 0, _SCOPES) if spoken >= 6 else struct.pack("Q", handled)
    rules = system_call("landlock", _SYS_CREATE, request, ctypes.c_size_t(len(request)), ctypes.c_uint(0))
    try:
        for path in read:
            _allow(rules, path, READ & handled)
        for path in listed:
            _allow(rules, path, _READ_FOLDER)
        for path in write:
            _allow(rules, path, WRITE & handled)
        system_call("landlock", _SYS_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0))
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, opened)
        system_call("landlock", _SYS_ADD, ctypes.c_int(rules), ctypes.c_int(_RULE_PATH), rule, ctypes.c_uint(0))
    finally:
        os.close(opened)

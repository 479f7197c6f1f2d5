"""`python -I confine.py PLAN COMMAND...`: shuts itself in and becomes a command.

Runs alone, with the standard library only.

Owns the walls: new namespaces of users, network, IPC and processes; Landlock, by which only system folders and the program itself can be
read and nothing be written; limits of memory, processor time and output; no environment, no privileges. Invariant: a wall that is missing
is an exit code, unless the plan says `unconfined`; when the process outside dies, everything inside does.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

EXIT_NO_WALL = 71
EXIT_NO_PROGRAM = 72
SIGNALLED = 128
"""Exit codes above it are those of a program that was ended by a signal."""

_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_NAMESPACES = 0x1000_0000 | 0x4000_0000 | 0x0800_0000 | 0x2000_0000  # users, network, IPC, processes
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_RIGHTS_OF_VERSION = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_TCP, _TCP_SINCE = 0b11, 4
_SCOPES, _SCOPES_SINCE = 0b11, 6
_PROCESSES_MAX = 64
_FILES_MAX = 256

_LIBC = ctypes.CDLL(None, use_errno=True)


def main(plan: dict[str, Any], command: list[str]) -> NoReturn:
    """Becomes the process that waits for the command.

    Ends with its exit code, or 128 and the signal that ended it.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    alone = _enter_namespaces()
    spoken = max(0, int(_LIBC.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1))))
    if not plan["unconfined"] and (spoken == 0 or not (alone or spoken >= _TCP_SINCE)):
        os._exit(EXIT_NO_WALL)
    first = os.fork()
    if first:
        os._exit(_ending(first))
    # The first process of its namespace: whatever it leaves behind is killed with it.
    _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    program = os.fork()
    if program:
        os._exit(_ending(program))
    _become(plan, command, alone=alone, landlock=spoken)


def _enter_namespaces() -> bool:
    user, group = os.getuid(), os.getgid()
    if _LIBC.unshare(_NAMESPACES) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with suppress(OSError), open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def _become(plan: dict[str, Any], command: list[str], *, alone: bool, landlock: int) -> NoReturn:
    try:
        os.chdir(plan["folder"])
        _limit(plan, alone=alone)
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0)
        if landlock:
            _shut_files(landlock, [*_READABLE, plan["program"]])
    except (OSError, ValueError) as error:
        os.write(2, f"cannot be shut in: {error}\n".encode())
        os._exit(EXIT_NO_WALL)
    try:
        os.execve(plan["program"], command, {})
    except OSError as error:
        os.write(2, f"cannot be run: {error.strerror}\n".encode())
        os._exit(EXIT_NO_PROGRAM)


def _limit(plan: dict[str, Any], *, alone: bool) -> None:
    limits = {
        resource.RLIMIT_AS: plan["memory_bytes"],
        resource.RLIMIT_CPU: plan["cpu_s"],
        resource.RLIMIT_FSIZE: plan["output_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: _FILES_MAX,
    }
    if alone:  # elsewhere it would count all processes of the node's user
        limits[resource.RLIMIT_NPROC] = _PROCESSES_MAX
    for which, most in limits.items():
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


def _shut_files(spoken: int, readable: list[str]) -> None:
    handled = sum(rights for since, rights in _RIGHTS_OF_VERSION.items() if since <= spoken)
    members = [handled]
    if spoken >= _TCP_SINCE:
        members.append(_TCP)
    if spoken >= _SCOPES_SINCE:
        members.append(_SCOPES)
    request = struct.pack("Q" * len(members), *members)
    rules = _checked(_CREATE, request, ctypes.c_size_t(len(request)), ctypes.c_uint(0))
    for path in readable:
        _allow(rules, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    for path in _DEVICES:
        _allow(rules, path, _READ_FILE | _WRITE_FILE)
    _checked(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0))
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _OF_FILES
    _checked(_ADD, ctypes.c_int(rules), ctypes.c_int(1), struct.pack("=Qi", rights, opened), ctypes.c_uint(0))
    os.close(opened)


def _checked(number: int, *arguments: object) -> int:
    found = int(_LIBC.syscall(ctypes.c_long(number), *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _ending(child: int) -> int:
    """The exit code of a child.

    The process that waits reaps what was left to it meanwhile.
    """
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])

"""What Linux offers to shut a process in, as functions.

Owns the calls that Python's library lacks. Invariant: a call that fails raises OSError that names it, so nothing is taken for shut
that is open. Not here: which walls are put up, and in which order (`enter`).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
ALL_NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000

READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXECUTION = 1, 2, 4, 8
"""Attributes of a mount, as mount_setattr(2) counts them."""

_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES_MAX = 64

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_LIBC = ctypes.CDLL(None, use_errno=True)


def system_call(name: str, number: int, *arguments: object) -> int:
    """A call by its number. Raises OSError."""
    return _checked(name, int(_LIBC.syscall(ctypes.c_long(number), *arguments)))


def process_control(name: str, option: int, *arguments: object) -> None:
    """prctl(2). Raises OSError."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    as_long = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in padded]
    _checked(name, int(_LIBC.prctl(option, *as_long)))


def unshare(flags: int) -> None:
    """Leaves the given namespaces for new ones.

    The one of processes is entered by the next child.
    """
    _checked("unshare", int(_LIBC.unshare(flags)))


def mount_bind(source: str, target: str, attributes: int) -> None:
    """Shows `source`, with all that is mounted below it, at `target` too."""
    _mount(source, target, None, _MS_BIND | _MS_REC)
    restrict_mount(target, attributes, recursive=True)


def mount_new(kind: str, target: str, flags: int, options: str = "", *, name: str | None = None) -> None:
    """Mounts a file system that the kernel makes."""
    _mount(name or kind, target, kind, flags, options)


def mount_privately() -> None:
    """From now on mounts of this process are seen by nobody else."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def restrict_mount(target: str, attributes: int, *, recursive: bool) -> None:
    """Takes rights from a mount, and from those below it."""
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    arguments = (ctypes.c_int(_AT_FDCWD), os.fsencode(target), ctypes.c_uint(flags), request)
    system_call("mount_setattr", _SYS_MOUNT_SETATTR, *arguments, ctypes.c_size_t(len(request)))


def change_root(new: str) -> None:
    """Makes `new` the root and lets go of the old one."""
    os.chdir(new)
    system_call("pivot_root", _of_machine(_SYS_PIVOT_ROOT), b".", b".")
    _checked("umount2", int(_LIBC.umount2(b".", _MNT_DETACH)))
    os.chdir("/")


def raise_loopback() -> None:
    """Brings up the loopback device of a new network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP))


def give_up_capabilities() -> None:
    """Gives up every capability of this process, for good."""
    for capability in range(_CAPABILITIES_MAX):
        try:
            process_control("drop a capability", _PR_CAPBSET_DROP, capability)
        except OSError:
            break  # the kernel knows no more of them, or we have none to give up
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    system_call("capset", _of_machine(_SYS_CAPSET), header, struct.pack("6I", *[0] * 6))


def gain_nothing_by_execution() -> None:
    """No program that this process executes gets more rights than it has."""
    process_control("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """This process is killed when its parent ends.

    A parent that has ended already is noticed by the end of its pipe.
    """
    process_control("die with the parent", _PR_SET_PDEATHSIG, int(signal.SIGKILL))


def machine() -> str:
    """The processor, as the tables of call numbers name it.

    Raises OSError for one that has none.
    """
    name = platform.machine()
    if name not in _SYS_PIVOT_ROOT:
        raise OSError(0, f"no call numbers are known for {name}")
    return name


def _of_machine(numbers: dict[str, int]) -> int:
    return numbers[machine()]


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    encoded = os.fsencode(kind) if kind else None
    result = _LIBC.mount(
        os.fsencode(source), os.fsencode(target), encoded, ctypes.c_ulong(flags), os.fsencode(options) or None
    )
    _checked(f"mount {target}", int(result))


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result

"""Seccomp filter: system calls that no query needs are refused.

Owns the list. Invariant: whatever the processor, a refused call fails with EPERM and never ends the process. It refuses what leads
out (tracing, namespaces, mounts, modules, keys), sockets that are neither local nor IP, and links, pipes and devices, over which the
coordinator could stumble. Not here: files (`landlock`) and the network (a namespace).
"""

from __future__ import annotations

import ctypes
import errno
import struct

from odfabric_engine_spark.process.sandbox.kernel import machine, process_control

_TABLE: tuple[tuple[str, int, int | None], ...] = (
    ("ptrace", 101, 117),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("kcmp", 312, 272),
    ("perf_event_open", 298, 241),
    ("mount", 165, 40),
    ("umount2", 166, 39),
    ("pivot_root", 155, 41),
    ("chroot", 161, 51),
    ("unshare", 272, 97),
    ("setns", 308, 268),
    ("keyctl", 250, 219),
    ("add_key", 248, 217),
    ("request_key", 249, 218),
    ("bpf", 321, 280),
    ("userfaultfd", 323, 282),
    ("kexec_load", 246, 104),
    ("kexec_file_load", 320, 294),
    ("init_module", 175, 105),
    ("finit_module", 313, 273),
    ("delete_module", 176, 106),
    ("open_by_handle_at", 304, 265),
    ("name_to_handle_at", 303, 264),
    ("swapon", 167, 224),
    ("swapoff", 168, 225),
    ("reboot", 169, 142),
    ("settimeofday", 164, 170),
    ("clock_settime", 227, 112),
    ("adjtimex", 159, 171),
    ("clock_adjtime", 305, 266),
    ("acct", 163, 89),
    ("quotactl", 179, 60),
    ("syslog", 103, 116),
    ("sethostname", 170, 161),
    ("setdomainname", 171, 162),
    ("iopl", 172, None),
    ("ioperm", 173, None),
    ("modify_ldt", 154, None),
    ("symlink", 88, None),
    ("symlinkat", 266, 36),
    ("mknod", 133, None),
    ("mknodat", 259, 33),
    ("io_uring_setup", 425, 425),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("open_tree", 428, 428),
    ("move_mount", 429, 429),
    ("fsopen", 430, 430),
    ("fsconfig", 431, 431),
    ("fsmount", 432, 432),
    ("fspick", 433, 433),
    ("pidfd_getfd", 438, 438),
    ("mount_setattr", 442, 442),
)
"""Calls that are refused, with their numbers on x86_64 and aarch64."""

REFUSED = {
    "x86_64": {name: number for name, number, _ in _TABLE},
    "aarch64": {name: number for name, _, number in _TABLE if number is not None},
}

_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_SOCKET = {"x86_64": 41, "aarch64": 198}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_FOREIGN_ABI_FROM = {"x86_64": 0x4000_0000}

_ARCHITECTURE = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, and AF_NETLINK by which a process lists its network devices."""
_NEW_NAMESPACES = 0x7E02_0000
_TYPE_INTO_TERMINAL = 0x5412

_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST, _AT_SECOND = 0, 4, 16, 24
_ALLOW, _FAIL = 0x7FFF_0000, 0x0005_0000

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def filter_calls() -> None:
    """Puts up the filter for this process and its children.

    It must gain nothing by execution any more. Raises OSError.
    """
    code = program(machine())
    instructions = ctypes.create_string_buffer(code, len(code))
    whole = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
    process_control("seccomp", _PR_SET_SECCOMP, _MODE_FILTER, whole)


def program(processor: str) -> bytes:
    """The filter as the kernel runs it."""
    refusal = _instruction(_RETURN, _FAIL | errno.EPERM)
    unknown = _instruction(_RETURN, _FAIL | errno.ENOSYS)
    code = [
        _instruction(_LOAD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, _ARCHITECTURE[processor], then=1),
        refusal,
        _instruction(_LOAD, _AT_NUMBER),
    ]
    if processor in _FOREIGN_ABI_FROM:
        code += [_instruction(_JUMP_FROM, _FOREIGN_ABI_FROM[processor], otherwise=1), refusal]
    for number in sorted(REFUSED[processor].values()):
        code += [_instruction(_JUMP_EQUAL, number, otherwise=1), refusal]
    # The arguments of clone3 cannot be seen; where it does not exist, libraries use clone.
    code += [_instruction(_JUMP_EQUAL, _CLONE3, otherwise=1), unknown]
    code += [
        _instruction(_JUMP_EQUAL, _CLONE[processor], otherwise=4),
        _instruction(_LOAD, _AT_FIRST),
        _instruction(_JUMP_BITS, _NEW_NAMESPACES, otherwise=1),
        refusal,
        _instruction(_RETURN, _ALLOW),
    ]
    code += [
        _instruction(_JUMP_EQUAL, _IOCTL[processor], otherwise=4),
        _instruction(_LOAD, _AT_SECOND),
        _instruction(_JUMP_EQUAL, _TYPE_INTO_TERMINAL, otherwise=1),
        refusal,
        _instruction(_RETURN, _ALLOW),
    ]
    code += [
        _instruction(_JUMP_EQUAL, _SOCKET[processor], otherwise=len(_FAMILIES) + 2),
        _instruction(_LOAD, _AT_FIRST),
        *(_instruction(_JUMP_EQUAL, family, then=len(_FAMILIES) - place) for place, family in enumerate(_FAMILIES)),
        refusal,
    ]
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)

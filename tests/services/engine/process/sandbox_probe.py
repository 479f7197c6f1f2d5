"""Tries to escape the engine's sandbox: `python sandbox_probe.py`.

Run in the exchange folder.

Reads `places.json` (paths, ports and process ids of outside), writes `tried.json`: for each attempt None if it succeeded, or how it
failed. Standard library only: nothing of the tests is seen in there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
CALLS = {
    "x86_64": {"process_vm_readv": 310, "io_uring_setup": 425},
    "aarch64": {"process_vm_readv": 270, "io_uring_setup": 425},
}
CLONE_NEWUSER, MS_REMOUNT, MS_BIND = 0x1000_0000, 32, 4096
AF_VSOCK, AF_ALG, TIOCSTI = 40, 38, 0x5412


def call(result: int) -> None:
    """Raises what a call of the C library failed with."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def connect(family: int, address: object) -> None:
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect(address)


def send(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"secret", address)


def write(path: str) -> None:
    """Opened for writing and left as it is, should that succeed."""
    with open(path, "ab"):
        pass


def run(path: str) -> None:
    Path(path).write_text("#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o700)
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, "")


def attempts(places: dict[str, str], numbers: dict[str, int]) -> dict[str, Callable[[], object]]:
    """What is tried, by name; those that begin with `may ` must succeed."""
    syscall, calls = LIBC.syscall, CALLS[os.uname().machine]
    return {
        "may read its exchange folder": lambda: Path("places.json").read_bytes(),
        "may write to its exchange folder": lambda: write("written"),
        "may write to its private folder": lambda: write(os.path.join(os.environ["TMPDIR"], "written")),
        "may use its own loopback": own_loopback,
        "connect to a port of the host": lambda: connect(socket.AF_INET, ("127.0.0.1", numbers["port"])),
        "connect to the world": lambda: connect(socket.AF_INET, ("192.0.2.1", 80)),
        "connect to the world over IPv6": lambda: connect(socket.AF_INET6, ("2001:db8::1", 80)),
        "send to the world": lambda: send(("192.0.2.1", 53)),
        "resolve a name": lambda: socket.getaddrinfo("example.org", 80),
        "connect to a socket of the workspace": lambda: connect(socket.AF_UNIX, places["socket"]),
        "connect to an abstract socket": lambda: connect(socket.AF_UNIX, "\0" + places["abstract"]),
        "use another family of sockets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
        "use sockets of the host machine": lambda: socket.socket(AF_VSOCK).close(),
        "use ciphers of the kernel": lambda: socket.socket(AF_ALG, socket.SOCK_SEQPACKET).close(),
        "read the database": lambda: Path(places["database"]).read_bytes(),
        "list the workspace": lambda: os.listdir(places["workspace"]),
        "write to the workspace": lambda: write(places["workspace"] + "/planted"),
        "read the exchange folder of another": lambda: Path(places["neighbour"]).read_bytes(),
        "read the system's passwords": lambda: Path("/etc/shadow").read_bytes(),
        "list a home": lambda: os.listdir(places["home"]),
        "list the root": lambda: os.listdir("/"),
        "list the system's temporary folder": lambda: os.listdir(places["temporary"]),
        "write to the root": lambda: write("/planted"),
        "write to the system": lambda: write("/usr/planted"),
        "write to the code": lambda: write(places["code"]),
        "write to the class archive": lambda: write(places["cache"]),
        "run what it wrote": lambda: run("./program"),
        "run what it wrote privately": lambda: run(os.path.join(os.environ["TMPDIR"], "program")),
        "leave a link": lambda: os.symlink("/etc/passwd", "link"),
        "leave a pipe": lambda: os.mkfifo("pipe"),
        "leave a device": lambda: os.mknod("device", 0o600 | 0o020000, os.makedev(1, 3)),
        "signal a process": lambda: os.kill(numbers["pid"], 0),
        "see a process": lambda: os.listdir(f"/proc/{numbers['pid']}"),
        "read the environment of a process": lambda: Path(f"/proc/{numbers['pid']}/environ").read_bytes(),
        "trace a process": lambda: call(LIBC.ptrace(PTRACE_SEIZE, numbers["pid"], 0, 0)),
        "trace its parent": lambda: call(LIBC.ptrace(PTRACE_SEIZE, os.getppid(), 0, 0)),
        "read the memory of its parent": lambda: call(syscall(calls["process_vm_readv"], os.getppid(), 0, 0, 0, 0, 0)),
        "mount": lambda: call(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
        "make its root writable": lambda: call(LIBC.mount(b"none", b"/", None, MS_REMOUNT | MS_BIND, None)),
        "use rings of calls": lambda: call(syscall(calls["io_uring_setup"], 1, 0)),
        "type into the terminal": lambda: fcntl.ioctl(0, TIOCSTI, b"x"),
        "become root": lambda: os.setuid(0),
        "raise its priority": lambda: os.nice(-5),
        "stop its first process": lambda: stopped_first(),
        # Last: what succeeds here changes what the others would find.
        "enter a new user namespace": lambda: call(LIBC.unshare(CLONE_NEWUSER)),
        "change its root": lambda: os.chroot("."),
    }


def own_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(socket.AF_INET, server.getsockname())


def stopped_first() -> None:
    """Succeeds if we die with the first process, so nobody writes `tried.json`."""
    os.kill(1, signal.SIGKILL)
    raise OSError(errno.EPERM, "")


def outcome(attempt: Callable[[], object]) -> str | None:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return None


def main() -> None:
    places = json.loads(Path("places.json").read_text())
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    found: dict[str, object] = {
        "environment": dict(os.environ),
        "open": sorted(os.listdir("/proc/self/fd")),
        "processes": [name for name in os.listdir("/proc") if name.isdecimal()],
        "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
        "cores": resource.getrlimit(resource.RLIMIT_CORE),
    }
    found["tried"] = {name: outcome(attempt) for name, attempt in attempts(places["paths"], places["numbers"]).items()}
    Path("tried.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
    sys.exit(0)

"""Puts the sandbox up, from outside in, and runs a command in it.

`python -m odfabric_engine_spark.process.sandbox.enter PLAN`.

Owns the order. With namespaces it becomes two processes: one that waits outside, and one that is the first of the new processes, holds
no capability, and reaps. Invariant: when a wall cannot be put up the command never runs; when its parent ends everything is killed.
The command gets the environment of the plan and nothing of ours, and our standard streams. Not here: what is seen (`file_view`).
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from odfabric_engine_spark.process.sandbox import kernel, landlock
from odfabric_engine_spark.process.sandbox.file_view import (
    DEVICES,
    INSIDE_ID,
    INSIDE_NAME,
    MADE_FILES,
    PROCESSES,
    View,
    names_of_the_machine,
)
from odfabric_engine_spark.process.sandbox.system_calls import filter_calls
from odfabric_engine_spark.process.sandbox.walls import NAMESPACES, ROOT_NAME, Layer

EXIT_NO_WALL = 71
"""A wall could not be put up; the command did not run."""
SIGNALLED = 128
"""Exit codes above it tell the signal that ended the command."""
_ROOT_OPTIONS = "size=1m,mode=0755"
_NO_TRICKS = kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run behind which walls.

    `root` is an empty folder on which the new file system is built.
    """

    layers: frozenset[Layer]
    view: View
    root: Path
    command: tuple[str, ...]
    environment: dict[str, str]

    def to_json(self) -> str:
        """As a file."""
        return json.dumps(
            asdict(self), default=lambda value: sorted(value) if isinstance(value, frozenset) else str(value)
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Back from a file."""
        given = json.loads(text)
        view = given["view"]
        return cls(
            layers=frozenset(map(Layer, given["layers"])),
            view=View(
                read=tuple(map(Path, view["read"])),
                links=tuple((Path(place), says) for place, says in view["links"]),
                listed=tuple(map(Path, view["listed"])),
                exchange=Path(view["exchange"]),
                private=Path(view["private"]),
            ),
            root=Path(given["root"]),
            command=tuple(given["command"]),
            environment=given["environment"],
        )


def enter(plan: Plan) -> NoReturn:
    """Becomes the command, or the process that waits for it.

    Ends with its exit code, or 128 and the signal that ended it.

    Raises OSError if a wall cannot be put up.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold rows
    apart = bool(plan.layers & NAMESPACES)
    if apart:
        leave_namespaces()
        kernel.die_with_parent()
        first = os.fork()
        if first:
            os._exit(_awaited(first))
    kernel.die_with_parent()
    if apart:
        _build_root(plan)
        kernel.raise_loopback()
        socket.sethostname(INSIDE_NAME)
    kernel.give_up_capabilities()
    _restrict(plan)
    if apart:
        # The first process reaps, and cannot be killed from behind the walls: the command is the second.
        second = os.fork()
        if second:
            os._exit(_awaited(second))
    os.chdir(plan.view.exchange)
    os.execve(plan.command[0], plan.command, plan.environment)


def leave_namespaces() -> None:
    """This process gets namespaces of its own, in which it is another user.

    Raises OSError where the system allows none.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        os.setgroups([])
    kernel.unshare(kernel.ALL_NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{INSIDE_ID} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{INSIDE_ID} {group} 1")


def _build_root(plan: Plan) -> None:
    """The file system of the view, and nothing else, becomes ours."""
    view, root = plan.view, plan.root
    kernel.mount_privately()
    kernel.mount_new("tmpfs", str(root), _NO_TRICKS, _ROOT_OPTIONS, name=ROOT_NAME)
    for place, says in view.links:
        os.symlink(says, _below(root, place))
    for path in view.read:
        _show(path, root, kernel.READ_ONLY | kernel.NO_SETUID | kernel.NO_DEVICES)
    if view.hidden is not None:
        kernel.mount_new("tmpfs", str(_below(root, view.hidden)), _NO_TRICKS, _ROOT_OPTIONS)
    _show(view.exchange, root, kernel.NO_SETUID | kernel.NO_DEVICES | kernel.NO_EXECUTION)
    _show(view.private, root, kernel.NO_SETUID | kernel.NO_DEVICES)  # Spark's libraries load their native parts from it
    for device in DEVICES:
        _show(device, root, kernel.NO_SETUID | kernel.NO_EXECUTION)
    for name, text in MADE_FILES.items():
        file = _below(root, Path(name))
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    processes = _below(root, PROCESSES)
    processes.mkdir()
    kernel.mount_new("proc", str(processes), _NO_TRICKS | kernel.MS_NOEXEC)
    kernel.change_root(str(root))
    kernel.restrict_mount("/", kernel.READ_ONLY, recursive=False)


def _show(path: Path, root: Path, attributes: int) -> None:
    place = _below(root, path)
    if path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    elif not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    kernel.mount_bind(str(path), str(place), attributes)


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _restrict(plan: Plan) -> None:
    view, layers = plan.view, plan.layers
    if Layer.NO_NEW_PRIVILEGES in layers:
        kernel.gain_nothing_by_execution()
    if Layer.LANDLOCK in layers:
        names = map(Path, MADE_FILES) if layers & NAMESPACES else names_of_the_machine()
        read = [path for path in (*view.read, *names, PROCESSES) if path.exists()]
        landlock.restrict(read=read, listed=view.listed, write=[view.exchange, view.private, *DEVICES])
    if Layer.SECCOMP in layers:
        filter_calls()


def _awaited(child: int) -> int:
    """Waits for a child, reaping others that are given to us.

    The exit code to end with.
    """
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    try:
        enter(Plan.from_json(Path(sys.argv[1]).read_text()))
    except OSError as error:
        sys.stderr.write(f"a wall of the sandbox cannot be put up: {error}\n")
        sys.stderr.flush()
        os._exit(EXIT_NO_WALL)

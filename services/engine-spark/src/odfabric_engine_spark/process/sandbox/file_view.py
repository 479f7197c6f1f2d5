"""The file system that the engine sees: a list of paths, and nothing else.

Owns the list: interpreter, our code, Java, Spark, the system's libraries, to read; the exchange folder and a private folder, to write.
Invariant: nothing on it holds a secret, and the workspace around the exchange folder is hidden even where it lies below something
that is shown. Not here: how the list is enforced (`enter`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_OURS = ("odfabric", "odfabric_engine_spark")
_SYSTEM = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"))
_LOADER = tuple(Path(name) for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"))
_NAMES = tuple(Path(name) for name in ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"))
_RESOLVER = Path("/etc/resolv.conf")
DEVICES = tuple(Path(name) for name in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"))
PROCESSES = Path("/proc")

INSIDE_ID = 1000
"""User and group as the engine sees itself."""
INSIDE_NAME = "engine"

MADE_FILES = {
    "/etc/passwd": f"{INSIDE_NAME}:x:{INSIDE_ID}:{INSIDE_ID}::/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"{INSIDE_NAME}:x:{INSIDE_ID}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": f"127.0.0.1 localhost {INSIDE_NAME}\n",
}
"""Stand for the machine's own, which name its users and neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is seen. All paths are absolute; none of `read` lies below another of it."""

    read: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]
    """Links of the system (`/lib` to `usr/lib`) and what they say."""
    listed: tuple[Path, ...]
    """Folders whose names may be read: Python looks for our packages in them."""
    exchange: Path
    private: Path

    @property
    def hidden(self) -> Path | None:
        """The workspace, if it lies below something that is shown."""
        around = self.exchange.parent
        return around if any(around.is_relative_to(path) for path in self.read) else None


def view_of(*, exchange: Path, private: Path, java: Path, cache: Path | None, network: bool = False) -> View:
    """The view of an engine with these folders.

    With the network it may look up who is in it.
    """
    system = [path for path in _SYSTEM if path.exists()]
    ours = _ours()
    shown = [
        *(path for path in system if not path.is_symlink()),
        *(path for path in _LOADER if path.exists()),
        *_interpreter(),
        *ours,
        *_with_targets(java),
    ]
    if cache is not None:
        shown.append(cache.resolve())
    if network and _RESOLVER.exists():
        shown.append(_RESOLVER)
    links = tuple((path, os.readlink(path)) for path in system if path.is_symlink())
    listed = _outermost(path.parent for path in ours)
    return View(read=_outermost(shown), links=links, listed=listed, exchange=exchange, private=private)


def names_of_the_machine() -> tuple[Path, ...]:
    """Files that stand in for `MADE_FILES` where nothing can be mounted."""
    return tuple(path for path in _NAMES if path.exists())


def _interpreter() -> list[Path]:
    """Python itself, its environment, and packages from elsewhere."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable), Path(sys.executable).resolve().parent]
    found += [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    found += [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    return [path for path in found if path.exists()]


def _ours() -> list[Path]:
    specs = [find_spec(name) for name in _OURS]
    return [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]


def _with_targets(java: Path) -> list[Path]:
    """A runtime and what its links lead to: distributions keep parts of it in /etc."""
    found = {java}
    for folder, folders, files in os.walk(java):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and path.exists():
                found.add(path.resolve())
    return sorted(found)


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(above) for above in kept):
            kept.append(path)
    return tuple(kept)

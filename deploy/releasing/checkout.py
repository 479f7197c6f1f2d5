"""The checkout that a release is made from: its tree and its locks."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from deploy.releasing.outcome import Outcome, listed

SHIPPED_LOCKS = ("boot", "node", "engine")
"""Locks of what runs at users'; `docs`, `test` and `release` stay in a checkout."""


def check_tree(root: Path) -> Outcome:
    """What is checked is what would be tagged."""
    status = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    changed = [line[3:] for line in status.stdout.splitlines()]
    found = f"not committed: {listed(changed)}" if changed else "everything is committed"
    return Outcome("tree", not changed, found, "Commit or remove them")


def check_locks(root: Path) -> Outcome:
    """Every extra and group has its lock, and no lock says where packages come from."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    wanted = {*project["project"]["optional-dependencies"], *project["dependency-groups"]} - {"all"}
    locks = {path.stem: path.read_text() for path in sorted((root / "locks").glob("*.lock"))}
    wrong = [f"{name}.lock is missing" for name in sorted(wanted - set(locks))]
    wrong += [f"{name}.lock belongs to no group" for name in sorted(set(locks) - wanted)]
    wrong += [f"{name}.lock names an address" for name, text in locks.items() if "://" in text]
    return Outcome("locks", not wrong, "; ".join(wrong) or listed(sorted(locks)), "Run `sh locks/relock`")


def locked(root: Path, name: str) -> list[str]:
    """The requirements of a lock, `name==version` with its marker."""
    text = (root / "locks" / f"{name}.lock").read_text()
    return re.findall(r"^([a-z0-9][^\\\n]*?==[^\\\n]*?) *\\?$", text, re.MULTILINE)

"""Change fragments and what they become: a section of CHANGELOG.md."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from deploy.releasing.outcome import Outcome, listed
from deploy.releasing.versions import version_of

NO_FRAGMENTS = ("README.md", "template.md")
UPGRADE_NOTES = "### Upgrade notes"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\.([a-z]+)\.md")


def fragments(root: Path) -> list[str]:
    """Files below `changes/` that a release gathers, with their path from there."""
    folder = root / "changes"
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in files if str(path) not in NO_FRAGMENTS]


def misplaced(root: Path) -> list[str]:
    """Fragments that towncrier refuses or, outside of the areas, leaves out without a word."""
    configured = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["towncrier"]
    areas = {section["path"] for section in configured["section"]}
    kinds = {kind["directory"] for kind in configured["type"]}
    found = []
    for fragment in fragments(root):
        area, _, name = fragment.rpartition("/")
        named = _NAME.fullmatch(name)
        if area not in areas or named is None or named[1] not in kinds:
            found.append(fragment)
    return found


def check_fragments(root: Path) -> Outcome:
    """Everything that changed is in the changelog."""
    left = fragments(root)
    remedy = f"Gather them: `.odf/venv/bin/towncrier build --version {version_of(root)}` (docs/howto/release.md)"
    return Outcome("fragments", not left, f"not gathered: {listed(left)}" if left else "gathered", remedy)


def check_changelog(root: Path) -> Outcome:
    """The first release in the changelog is this one, is there once, and begins with what it is about."""
    version = version_of(root)
    titles = re.findall(r"^## (\S+)", _changelog(root), re.MULTILINE)
    if titles[:1] != [version] or titles.count(version) != 1:
        named = ", ".join(titles[:3]) or "nothing"
        return Outcome("changelog", False, f"CHANGELOG.md has {named}", f"Its first release must be {version}, once")
    highlights = section(root, version).split("\n### ")[0].strip()
    remedy = f"Say below the title of {version} in CHANGELOG.md what the release is about"
    return Outcome("changelog", bool(highlights), f"{version}" if highlights else "no highlights", remedy)


def check_upgrade_notes(root: Path) -> Outcome:
    """The release says what to do with a node of an earlier one, even if that is nothing."""
    present = UPGRADE_NOTES in section(root, version_of(root)).splitlines()
    remedy = f"Add `{UPGRADE_NOTES}` to the release in CHANGELOG.md, even if it says that nothing has to be done"
    return Outcome("upgrade notes", present, "present" if present else "missing", remedy)


def section(root: Path, version: str) -> str:
    """The text of one release in the changelog, without its title; empty if there is none."""
    found = re.search(rf"^## {re.escape(version)} .*\n((?:(?!## ).*\n?)*)", _changelog(root), re.MULTILINE)
    return found[1] if found else ""


def _changelog(root: Path) -> str:
    path = root / "CHANGELOG.md"
    return path.read_text() if path.exists() else ""

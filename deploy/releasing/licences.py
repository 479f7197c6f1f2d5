"""Licences of everything that a release installs at users'.

Owns the comparison with `accepted.toml`. What packages say is read by pip-licenses from this environment, which has them all in the
versions of the locks; npm packages of the console are those that the build of its scripts lists.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.releasing.checkout import SHIPPED_LOCKS, locked
from deploy.releasing.outcome import Outcome, listed

ACCEPTED = Path(__file__).parent / "accepted.toml"


def check_licences(root: Path) -> Outcome:
    """Every shipped package has a licence that is accepted, or is an exception with a reason."""
    requirements = [Requirement(line) for name in SHIPPED_LOCKS for line in locked(root, name)]
    here = {one.name for one in requirements if one.marker is None or one.marker.evaluate()}
    elsewhere = {one.name for one in requirements} - here
    said = installed_licences(sorted(here))
    missing = (here - set(said)) | elsewhere
    scripts = root / ".odf/web/licences.txt"
    if scripts.exists():
        said |= bundled_licences(scripts.read_text())
    wrong = [] if scripts.exists() else ["the console's scripts (not built here)"]
    wrong += refused(said, missing=missing, accepted=tomllib.loads(ACCEPTED.read_text()))
    remedy = f"Do without the package, or accept it in {ACCEPTED.relative_to(ACCEPTED.parents[2])} with the reason"
    return Outcome("licences", not wrong, listed(wrong) or f"of {len(set(said) | missing)} packages accepted", remedy)


def installed_licences(names: list[str]) -> dict[str, str]:
    """Package -> what it says about its licence, of those that are installed here."""
    tool = str(Path(sys.executable).parent / "pip-licenses")
    command = [tool, "--from=mixed", "--format=json", "--with-system", "--packages", *names]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return {canonicalize_name(one["Name"]): one["License"] for one in json.loads(answer.stdout)}


def bundled_licences(listing: str) -> dict[str, str]:
    """The same of npm packages, from what `services/api/web/build.mjs` writes."""
    return dict(re.findall(r"^==== (\S+) \S+ \((.+)\) ====$", listing, re.MULTILINE))


def refused(said: dict[str, str], *, missing: set[str], accepted: dict[str, Any]) -> list[str]:
    """Packages whose licence is not accepted; the `missing` are those that are installed on other platforms only."""
    licences, exceptions, others = (accepted[key] for key in ("licences", "exceptions", "other-platforms"))
    allowed = set(licences["allowed"])
    wrong = [
        f"{name} ({licence})"
        for name, licence in sorted(said.items())
        if not (is_allowed(licence, allowed) or exceptions.get(name, {}).get("licence") == licence)
    ]
    unknown = [name for name in sorted(missing) if not is_allowed(others.get(name, "not installed here"), allowed)]
    return wrong + [f"{name} (not installed here)" for name in unknown]


def is_allowed(licence: str, allowed: set[str]) -> bool:
    """One of several licences is enough where a package offers a choice (OR); where it names several parts, all must be allowed."""
    if licence in allowed:
        return True
    if " OR " in licence and "(" not in licence:
        return any(is_allowed(one, allowed) for one in licence.split(" OR "))
    parts = re.split(r" AND |; ", licence)
    return len(parts) > 1 and all(is_allowed(one, allowed) for one in parts)

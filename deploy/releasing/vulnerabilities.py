"""Known vulnerabilities of everything that a release installs at users', looked up by pip-audit."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from deploy.releasing.checkout import SHIPPED_LOCKS
from deploy.releasing.licences import ACCEPTED
from deploy.releasing.outcome import Outcome, listed

AUDIT_S_MAX = 600.0
_NAME = "vulnerabilities"


def check_vulnerabilities(root: Path, *, offline: bool) -> Outcome:
    """No shipped package has a known vulnerability. Where the index does not answer, only `offline` lets that pass."""
    accepted = tomllib.loads(ACCEPTED.read_text())["vulnerabilities"]
    tool = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", "--no-deps", "--disable-pip"]
    locks = [word for name in SHIPPED_LOCKS for word in ("-r", str(root / "locks" / f"{name}.lock"))]
    try:
        answer = subprocess.run([*tool, *locks], capture_output=True, text=True, timeout=AUDIT_S_MAX)
    except subprocess.TimeoutExpired:
        return unknown(f"no answer within {AUDIT_S_MAX:.0f} s", offline=offline)
    try:
        packages = json.loads(answer.stdout)["dependencies"]
    except (ValueError, KeyError):
        return unknown((answer.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1], offline=offline)
    return judged(packages, accepted=accepted, offline=offline)


def judged(packages: list[dict[str, Any]], *, accepted: Collection[str], offline: bool) -> Outcome:
    """What a report of pip-audit means."""
    found = {
        f"{one['name']} {one['version']} ({vulnerability['id']})"
        for one in packages
        for vulnerability in one.get("vulns", ())
        if not {vulnerability["id"], *vulnerability.get("aliases", ())} & set(accepted)
    }
    if found:
        remedy = f"Raise the version in the locks, or accept it in deploy/releasing/{ACCEPTED.name} with the reason"
        return Outcome(_NAME, False, listed(sorted(found)), remedy)
    skipped = sorted({one["name"] for one in packages if "skip_reason" in one})
    if skipped or not packages:
        return unknown(f"the index knows nothing of {listed(skipped) or 'any package'}", offline=offline)
    return Outcome(_NAME, True, f"none known of {len({one['name'] for one in packages})} packages")


def unknown(reason: str, *, offline: bool) -> Outcome:
    """Nobody looked, which is no reason to publish unless the maintainer says so."""
    remedy = "Run this where the package index answers pip-audit, or accept it by --offline"
    return Outcome(_NAME, offline, f"not checked: {reason}", remedy)

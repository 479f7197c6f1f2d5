"""The wheel: that it builds, and has what a checkout reads from elsewhere."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from deploy.releasing.outcome import Outcome, listed
from deploy.releasing.versions import version_of

BUILD_S_MAX = 600.0
_SCRIPT = "odf = odfabric.cli.__main__:run"
_MIGRATIONS = "odfabric/adapters/sql/migrations/"
_SCRIPTS = "odfabric_api/web/built/"


def check_wheel(root: Path) -> Outcome:
    """Builds the wheel into a folder that is removed again, and looks into it."""
    with tempfile.TemporaryDirectory(prefix="odfabric-wheel-") as folder:
        uv = str(Path(sys.executable).parent / "uv")
        command = [
            uv,
            "build",
            "-q",
            "--wheel",
            "--no-build-isolation",
            "--python",
            sys.executable,
            "--out-dir",
            folder,
        ]
        made = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=BUILD_S_MAX)
        wheels = list(Path(folder).glob("*.whl"))
        if made.returncode != 0 or len(wheels) != 1:
            said = (made.stderr.strip().splitlines() or ["uv said nothing"])[-1]
            return Outcome("wheel", False, f"does not build: {said}", "Run `.odf/venv/bin/uv build --wheel`")
        migrations = [path.name for path in (root / "migrations/versions").glob("*.py")]
        lacking = lacks(wheels[0], version=version_of(root), migrations=migrations)
        found = f"lacks {listed(lacking)}" if lacking else f"{wheels[0].name} is complete"
        return Outcome("wheel", not lacking, found, "See [tool.hatch.build] in pyproject.toml")


def lacks(wheel: Path, *, version: str, migrations: list[str]) -> list[str]:
    """What the wheel should have and has not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"odfabric-{version}.dist-info"
        entry_points = (
            archive.read(f"{about}/entry_points.txt").decode() if f"{about}/entry_points.txt" in names else ""
        )
    missing = [] if _SCRIPT in entry_points.splitlines() else ["the command odf"]
    wanted = [
        f"{about}/licenses/LICENSE",
        f"{_SCRIPTS}manifest.json",
        f"{_SCRIPTS}licences.txt",
        f"{_MIGRATIONS}env.py",
    ]
    wanted += [f"{_MIGRATIONS}versions/{name}" for name in migrations]
    missing += [name for name in wanted if name not in names]
    if not any(name.startswith(_SCRIPTS) and name.endswith(".js") for name in names):
        missing.append("scripts of the console")
    return missing

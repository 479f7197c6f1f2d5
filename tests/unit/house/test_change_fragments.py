"""Change fragments are in areas that towncrier gathers; none is dropped."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy.releasing.notes import fragments, misplaced

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


def draft(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "towncrier"), "build", "--draft", "--dir", str(root)]
    return subprocess.run(
        [*command, "--version", "9.9.9", "--date", "2030-01-02"], capture_output=True, text=True, cwd=root
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Our configuration and template, without fragments."""
    (tmp_path / "changes").mkdir()
    for name in ("pyproject.toml", "changes/README.md", "changes/template.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def write(project: Path, fragment: str, text: str) -> None:
    path = project / "changes" / fragment
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n")


def test_every_fragment_is_in_an_area_and_is_rendered() -> None:
    assert misplaced(ROOT) == [], "a fragment is changes/AREA/NAME.KIND.md, see changes/README.md"
    made = draft(ROOT)
    assert made.returncode == 0, made.stderr
    entries = re.findall(r"^- ", made.stdout, re.MULTILINE)
    assert len(entries) == len(fragments(ROOT)), "each fragment is one entry"


def test_links_of_fragments_and_changelog_lead_somewhere() -> None:
    pages = [
        *(f"changes/{name}" for name in fragments(ROOT)),
        *(["CHANGELOG.md"] if (ROOT / "CHANGELOG.md").exists() else []),
    ]
    dead = [
        (page, link) for page in pages for link in LINK.findall((ROOT / page).read_text()) if not (ROOT / link).exists()
    ]
    assert dead == [], "links start at the root of the repository"


def test_a_release_has_areas_with_kinds_and_ends_with_upgrade_notes(project: Path) -> None:
    write(project, "upgrade/database.changed.md", "Run `odf init`.")
    write(project, "formats/b-second.added.md", "Second.")
    write(project, "formats/a-first.added.md", "First.")
    write(project, "formats/hole.security.md", "Closed.")
    write(project, "publishing/faster.changed.md", "Faster.")
    assert misplaced(project) == []
    made = draft(project)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip().splitlines() == [
        "## 9.9.9 (2030-01-02)",
        "",
        "### Publishing and ingestion",
        "",
        "#### Changed",
        "",
        "- Faster.",
        "",
        "### Formats",
        "",
        "#### Added",
        "",
        "- First.",
        "- Second.",
        "",
        "#### Security",
        "",
        "- Closed.",
        "",
        "### Upgrade notes",
        "",
        "- Run `odf init`.",
    ]


@pytest.mark.parametrize("name", ["thing.improved.md", "Thing.added.md", "two words.added.md", "notes.md"])
def test_towncrier_refuses_a_wrong_name(project: Path, name: str) -> None:
    write(project, f"formats/{name}", "Something.")
    assert misplaced(project) == [f"formats/{name}"]
    assert draft(project).returncode != 0


@pytest.mark.parametrize(
    "fragment", ["thing.added.md", "elsewhere/thing.added.md", "formats/thing.added", "formats/a/b.added.md"]
)
def test_a_fragment_that_towncrier_would_leave_out_is_found(project: Path, fragment: str) -> None:
    (project / "changes" / fragment).parent.mkdir(parents=True, exist_ok=True)
    write(project, fragment, "Something.")
    assert misplaced(project) == [fragment]


def test_the_areas_that_the_guide_names_are_those_that_are_gathered() -> None:
    guide = (ROOT / "changes/README.md").read_text()
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    areas, kinds = [one["path"] for one in configured["section"]], [one["directory"] for one in configured["type"]]
    assert re.findall(r"^\| `([a-z-]+)` \|", guide, re.MULTILINE) == areas + kinds

"""`deploy/release` finds what makes a bad release, with a remedy for each."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.releasing.__main__ import SBOM_TOOLS, next_commands, report
from deploy.releasing.checkout import check_locks, check_tree
from deploy.releasing.licences import check_licences, is_allowed, refused
from deploy.releasing.notes import check_changelog, check_fragments, check_upgrade_notes
from deploy.releasing.outcome import Outcome
from deploy.releasing.versions import check_images, check_tag, check_versions
from deploy.releasing.vulnerabilities import judged
from deploy.releasing.wheel import lacks
from odfabric import __version__

ROOT = Path(__file__).resolve().parents[3]
PLACES = (
    "pyproject.toml",
    "src/odfabric/__init__.py",
    "deploy/helm/odfabric/Chart.yaml",
    "deploy/helm/odfabric/values.yaml",
    "Dockerfile",
    "docker-compose.yml",
    "docker-compose.cluster.yml",
)
GOOD = "# Changes\n\n## 0.2.0 (2030-01-02)\n\nHighlights.\n\n### Formats\n\n- One.\n\n### Upgrade notes\n\n- Nothing.\n"
ACCEPTED = {
    "licences": {"allowed": ["MIT", "BSD", "0BSD"]},
    "exceptions": {"psycopg": {"licence": "LGPL-3.0-only", "reason": "used unchanged"}},
    "other-platforms": {"colorama": "BSD"},
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of the files that name the version, with our locks."""
    for name in (*PLACES, *(str(path.relative_to(ROOT)) for path in (ROOT / "locks").glob("*.lock"))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text().replace(__version__, "0.2.0"))
    (tmp_path / "changes").mkdir()
    shutil.copy(ROOT / "changes/README.md", tmp_path / "changes/README.md")
    (tmp_path / "CHANGELOG.md").write_text(GOOD)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    person = ["-c", "user.name=A Maintainer", "-c", "user.email=maintainer@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *person, *words], cwd=folder, check=True)


def test_the_version_is_the_same_everywhere() -> None:
    for outcome in (check_versions(ROOT), check_images(ROOT), check_locks(ROOT)):
        assert outcome.ok, str(outcome)


def test_licences_of_all_that_is_shipped_are_accepted() -> None:
    outcome = check_licences(ROOT)
    assert outcome.ok, str(outcome)


def test_a_good_checkout_has_nothing_to_do(checkout: Path) -> None:
    checks = (
        check_tree,
        check_versions,
        check_images,
        check_tag,
        check_fragments,
        check_changelog,
        check_upgrade_notes,
    )
    assert [str(outcome) for check in (*checks, check_locks) if not (outcome := check(checkout)).ok] == []


@pytest.mark.parametrize("place", PLACES[1:])
def test_another_version_is_found_where_it_is(checkout: Path, place: str) -> None:
    path = checkout / place
    path.write_text(path.read_text().replace("0.2.0", "0.1.9"))
    outcomes = [check_versions(checkout), check_images(checkout)]
    (wrong,) = [outcome for outcome in outcomes if not outcome.ok]
    assert place in wrong.found
    assert "0.1.9" in wrong.found
    assert "0.2.0" in wrong.remedy


def test_an_image_without_a_tag_is_found(checkout: Path) -> None:
    path = checkout / "docker-compose.cluster.yml"
    path.write_text(path.read_text().replace("  image: odfabric-engine:0.2.0\n", ""))
    assert "docker-compose.cluster.yml spark-master has none" in check_images(checkout).found


def test_a_released_version_is_not_released_again(checkout: Path) -> None:
    git(checkout, "tag", "v0.2.0")
    assert not check_tag(checkout).ok


def test_a_tree_with_changes_is_not_what_would_be_tagged(checkout: Path) -> None:
    (checkout / "new.txt").write_text("new")
    assert str(check_tree(checkout)) == "not ok  tree: not committed: new.txt. Commit or remove them"


def test_fragments_have_to_be_gathered(checkout: Path) -> None:
    (checkout / "changes/formats").mkdir()
    (checkout / "changes/formats/thing.added.md").write_text("Something.\n")
    outcome = check_fragments(checkout)
    assert not outcome.ok
    assert "formats/thing.added.md" in outcome.found
    assert "towncrier build --version 0.2.0" in outcome.remedy


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "CHANGELOG.md has nothing"),
        (GOOD.replace("0.2.0", "0.1.0"), "CHANGELOG.md has 0.1.0"),
        (GOOD + "\n## 0.2.0 (2030-01-01)\n", "CHANGELOG.md has 0.2.0, 0.2.0"),
        (GOOD.replace("Highlights.\n", ""), "no highlights"),
    ],
)
def test_a_changelog_without_this_release_is_found(checkout: Path, text: str, found: str) -> None:
    (checkout / "CHANGELOG.md").write_text(text)
    outcome = check_changelog(checkout)
    assert (outcome.ok, outcome.found) == (False, found)


def test_upgrade_notes_of_an_earlier_release_do_not_count(checkout: Path) -> None:
    now = GOOD.partition("### Upgrade notes")[0]
    (checkout / "CHANGELOG.md").write_text(now + GOOD.replace("# Changes\n\n", "").replace("0.2.0", "0.1.0"))
    assert not check_upgrade_notes(checkout).ok


def test_a_lock_with_an_address_or_without_a_group_is_found(checkout: Path) -> None:
    (checkout / "locks/node.lock").write_text("--index-url https://example.org/simple\n")
    (checkout / "locks/test.lock").rename(checkout / "locks/tests.lock")
    found = check_locks(checkout).found
    assert found == "test.lock is missing; tests.lock belongs to no group; node.lock names an address"


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND 0BSD", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR (GPL-3.0-only AND 0BSD)", False),
        ("BSD; GPL-3.0-only", False),
        ("UNKNOWN", False),
        ("", False),
    ],
)
def test_a_licence_is_allowed_as_a_whole(licence: str, allowed: bool) -> None:
    assert is_allowed(licence, {"MIT", "BSD", "0BSD"}) is allowed


def test_an_exception_is_for_one_package_and_one_licence() -> None:
    said = {"psycopg": "LGPL-3.0-only", "fine": "MIT"}
    assert refused(said, missing={"colorama"}, accepted=ACCEPTED) == []
    other = {"psycopg": "GPL-3.0-only", "another": "LGPL-3.0-only"}
    wrong = ["another (LGPL-3.0-only)", "psycopg (GPL-3.0-only)", "strange (not installed here)"]
    assert refused(other, missing={"strange"}, accepted=ACCEPTED) == wrong


def test_a_known_vulnerability_is_refused_unless_it_is_accepted() -> None:
    known = {"name": "thing", "version": "1.0", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"]}]}
    fine = {"name": "other", "version": "2.0", "vulns": []}
    outcome = judged([known, fine], accepted={}, offline=True)
    assert (outcome.ok, outcome.found) == (False, "thing 1.0 (PYSEC-1)")
    assert judged([known, fine], accepted={"CVE-1": "not reachable"}, offline=False).ok


@pytest.mark.parametrize("packages", [[], [{"name": "thing", "skip_reason": "not found"}]])
def test_what_nobody_looked_up_is_accepted_by_request_only(packages: list[dict[str, str]]) -> None:
    refused_now, accepted_now = (judged(packages, accepted={}, offline=offline) for offline in (False, True))
    assert (refused_now.ok, accepted_now.ok) == (False, True)
    assert accepted_now.found.startswith("not checked: ")


def test_a_wheel_that_lacks_something_is_found(tmp_path: Path) -> None:
    whole = {
        "odfabric-0.2.0.dist-info/entry_points.txt": "[console_scripts]\nodf = odfabric.cli.__main__:run\n",
        "odfabric-0.2.0.dist-info/licenses/LICENSE": "",
        "odfabric/adapters/sql/migrations/env.py": "",
        "odfabric/adapters/sql/migrations/versions/one.py": "",
        "odfabric_api/web/built/manifest.json": "",
        "odfabric_api/web/built/licences.txt": "",
        "odfabric_api/web/built/console-1.js": "",
    }
    assert lacks(wheel(tmp_path, whole), version="0.2.0", migrations=["one.py"]) == []
    assert lacks(wheel(tmp_path, whole), version="0.2.0", migrations=["one.py", "two.py"]) == [
        "odfabric/adapters/sql/migrations/versions/two.py"
    ]
    for name in whole:
        part = {other: text for other, text in whole.items() if other != name}
        assert len(lacks(wheel(tmp_path, part), version="0.2.0", migrations=["one.py"])) == 1, name


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_next_steps_are_shown_only_if_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Outcome("tree", True, "clean"), Outcome("tag", False, "v1.0 exists", "Raise the version")
    assert report([good, bad], "1.0") == 1
    shown = capsys.readouterr().out
    assert "not ok  tag: v1.0 exists. Raise the version\n" in shown
    assert "git tag" not in shown
    assert report([good], "1.0") == 0
    shown = capsys.readouterr().out
    assert "git tag --sign v1.0" in shown
    assert "odfabric-engine:1.0" in shown


@pytest.fixture(scope="module")
def sbom_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that the printed commands make, elsewhere."""
    folder = tmp_path_factory.mktemp("sbom") / "venv"
    for command in SBOM_TOOLS:
        program, *words = command.replace(".odf/sbom", str(folder)).split()
        assert program == ".odf/venv/bin/uv"
        subprocess.run([Path(sys.executable).parent / "uv", *words], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("image", ["node", "engine"])
def test_a_bill_of_materials_lists_the_packages_of_an_image(image: str, sbom_tools: Path, tmp_path: Path) -> None:
    (command,) = [each for each in next_commands("1.0") if each.endswith(f" locks/{image}.lock")]
    words = command.replace("dist/", f"{tmp_path}/").split()
    assert words[0] == ".odf/sbom/bin/cyclonedx-py"
    subprocess.run([sbom_tools / "bin/cyclonedx-py", *words[1:]], cwd=ROOT, check=True)
    bill = json.loads((tmp_path / f"odfabric-{image}-1.0.cdx.json").read_text())
    lock = (ROOT / f"locks/{image}.lock").read_text()
    assert {(each["name"], each["version"]) for each in bill["components"]} == set(
        re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock, re.MULTILINE)
    )


def test_the_script_makes_its_environment_and_takes_options_from_any_folder(tmp_path: Path) -> None:
    maker = tmp_path / "maker"
    maker.write_text('#!/bin/sh\necho "$*" > "$0.said"\n')
    maker.chmod(0o755)
    command = [str(ROOT / "deploy/release"), "--help"]
    environment = {**os.environ, "ODF_PYTHON": str(maker)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "--offline" in shown.stdout
    assert (tmp_path / "maker.said").read_text() == f"-I locks/install.py {ROOT} boot node engine docs test release\n"

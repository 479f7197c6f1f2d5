"""The engine's folders: a README each, existing files, bounded size."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ROOT / "services/engine-spark/src/odfabric_engine_spark"
TESTS = ROOT / "tests/services/engine"
FOLDERS = sorted(path.parent for path in ENGINE.rglob("__init__.py"))
LOOSE = {"__init__.py", "__main__.py"}
FILES_MAX = 25
LINES_MAX = 600
README_LINES_MAX = 32


def name(folder: Path) -> str:
    return str(folder.relative_to(ENGINE))


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_readme_says_what_a_folder_owns_and_what_to_open_first(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert "\nOpen first: `" in text
    assert "\nCalled by: " in text
    assert len(text.splitlines()) <= README_LINES_MAX
    first = re.search(r"^Open first: `([^`]+)`", text, flags=re.MULTILINE)
    assert first is not None
    assert (folder / first[1]).is_file()


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_readme_names_what_exists(folder: Path) -> None:
    named = re.findall(r"`([\w/]+(?:\.(?:py|json|java))?)`", (folder / "README.md").read_text())
    paths = [each for each in named if "/" in each or "." in each]
    assert paths
    missing = [each for each in paths if not any((base / each).exists() for base in (folder, ENGINE))]
    assert not missing


@pytest.mark.parametrize("tree", [ENGINE, TESTS], ids=["engine", "tests"])
def test_folders_and_files_stay_small(tree: Path) -> None:
    files = list(tree.rglob("*.py"))
    crowded = {path.parent for path in files if len(list(path.parent.glob("*.py"))) > FILES_MAX}
    long = {path for path in files if len(path.read_text().splitlines()) > LINES_MAX}
    assert (crowded, long) == (set(), set())


def test_no_module_of_the_engine_is_loose() -> None:
    assert {path.name for path in ENGINE.glob("*.py")} == LOOSE


def test_folders_of_code_have_an_init() -> None:
    assert {path.parent for path in ENGINE.rglob("*.py")} == set(FOLDERS)

"""Rules of the house that no linter has."""

import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "locks").glob("*.lock"))
NPM_LOCKS = [
    "services/api/web/package-lock.json",
    "tests/browser/package-lock.json",
    "tests/support/servers/mqtt_broker/package-lock.json",
]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
FOLDER_FILES_MAX = 25
PROSE_CHARACTERS_MAX = 400

# Exceptions; these sets may only shrink.
LONG_FUNCTIONS: set[str] = set()
LONG_FILES: set[str] = set()

PAGES = ("docs/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "services/*.md")
OUTSIDE = re.compile(
    r"\bRULINGS?\b|\b[Rr]ulings? (?:on|\d)|\bINCREMENTAL\b|[Ii]ncremental method|\bSEMANTICS\b|PUBLIC\.md|PROVENANCE\.md|SPARK\.md"
    r"|\bfacts, (?:section|\")|\bfacts \(\"|[Pp]ersist (?:facts|architecture)|[Ss]pecification(?:'s)? facts|[Ss]emantics of transforms"
    r"|[Ss]ecurity propert(?:y|ies)|\bsecurity S\d|reference behaviour of|\bDESIGN (?:invariant|section|\d)"
)
"""Documents that were never in this repository."""
FILLERS = re.compile(
    r"(?<![-\w])anew\b|\bowe[sd]?\b|\bwhoever\b|\bmend(?:s|ed|ing)?\b|\bin hand\b|\bcomes? of\b|\btold\b|\bfurther out\b",
    re.IGNORECASE,
)
"""Words that stand for a verb or a term that says more."""
FILLERS_IN_CODE = re.compile(
    r"^ *(?:#|[rf]?\"\"\")(?:[^`\n]|`[^`\n]*`)*?(?<![-\w])(?:anew|owed|whoever|mended|told|tells)\b.*",
    re.IGNORECASE | re.MULTILINE,
)
"""Comments and first lines of docstrings that use one."""
CODE_WITH_FILLERS = re.compile(
    r"src/odfabric/usecases/(?:transfer|queries|reading|state)/|services/api/src/odfabric_api/web/"
    r"|tests/unit/test_house\.py"
)
RECORDS_OF_THE_PAST = re.compile(r"docs/adr/|docs/law-runs\.md|settings\.md$")
"""Decisions and runs are not rewritten; pages of settings are generated from code."""


def own_files(*patterns: str) -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", *patterns], cwd=ROOT, text=True).splitlines()
    return [ROOT / name for name in listed if "/generated/" not in name and (ROOT / name).exists()]


def pins(lock: Path) -> dict[str, str]:
    """Package (with its marker) -> version."""
    found = re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; ([^\\]+))? \\$", lock.read_text(), flags=re.MULTILINE)
    return {f"{name} {marker}": pinned for name, pinned, marker in found}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_pin_hashes_and_name_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert all(
        re.match(r"[a-z0-9-]+==\S+( ; .+)? \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line)
        for line in text.splitlines()
        if not line.startswith("#")
    )
    assert pins(lock)


@pytest.mark.parametrize("lock", NPM_LOCKS)
def test_npm_locks_pin_versions_with_hashes_and_name_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    own, *others = json.loads(text)["packages"].values()
    assert "://" not in re.sub(r'"url": "[^"]*"', "", text)  # where their authors ask for money
    assert all(re.match(r"sha512-[\w+/]{86}==$", package["integrity"]) for package in others)
    assert all(
        re.match(r"\d+(\.\d+)*$", one) for one in {**own["dependencies"], **own.get("devDependencies", {})}.values()
    )


def test_locks_fit_one_environment() -> None:
    seen: dict[str, str] = {}
    for lock in LOCKS:
        for package, pinned in pins(lock).items():
            assert seen.setdefault(package, pinned) == pinned, f"{package} differs in {lock.name}"


def test_functions_and_files_stay_readable() -> None:
    long_functions, long_files = set(), set()
    for path in own_files("*.py"):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        if text.count("\n") > FILE_LINES_MAX:
            long_files.add(name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long_functions.add(f"{name}:{node.name}")
    assert (long_functions, long_files) == (LONG_FUNCTIONS, LONG_FILES)


def test_no_test_is_skipped() -> None:
    ways = re.compile(r"pytest\.(skip|importorskip)\(|mark\.skip")
    about_it = {"test_house.py", "test_run_tests.py"}
    assert [p.name for p in own_files("tests/*.py") if p.name not in about_it and ways.search(p.read_text())] == []


def test_tests_of_the_engine_use_its_public_names() -> None:
    """A test of a private name breaks with each change of how the engine does it."""
    private = re.compile(
        r"from odfabric_engine_spark\S* import [^#\n]*\b_[a-zA-Z]|setattr\([^\n,]+, \"_[a-zA-Z]|\bodfabric_engine_spark\.[\w.]+\._\w"
    )
    suspects = own_files("tests/services/engine/*.py", "tests/unit/engine_spark/*.py")
    found = [str(path.relative_to(ROOT)) for path in suspects if private.search(path.read_text())]
    assert found == []


def test_nothing_depends_on_this_machine() -> None:
    machine = re.compile(r"/work/|/root/|/home/[a-z]|\.\./shared")
    suspects = own_files("*.py", "*.md", "*.toml", "*.sh", "*.yaml", "*.yml", "odf", ".ci/run")
    found = [str(path.relative_to(ROOT)) for path in suspects if machine.search(path.read_text())]
    assert [name for name in found if name != "tests/unit/test_house.py"] == []


REQUEST_READERS = "src/odfabric/formats/jobs"
"""The one place that knows what the texts in `job.request` look like."""


def json_of_requests(text: str) -> list[int]:
    """Lines on which `json.loads` reads an attribute `request`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "loads"
        and any(isinstance(inner, ast.Attribute) and inner.attr == "request" for inner in ast.walk(node))
    ]


def test_requests_of_jobs_are_read_in_one_place() -> None:
    assert json_of_requests("import json\nx = json.loads(job.request)['by']") == [2]
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in own_files("src/*.py", "services/*.py", "tests/*.py")
        for line in json_of_requests(path.read_text())
    }
    assert {place.rpartition("/")[0] for place in found} == {REQUEST_READERS}, "use a reader of odfabric.formats.jobs"


SUMMARY_CHARACTERS_MAX = 80


def long_summaries(text: str) -> list[int]:
    """Where something begins whose docstring has too long a first line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        getattr(node, "lineno", 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
        and len((ast.get_docstring(node) or "").split("\n", 1)[0]) > SUMMARY_CHARACTERS_MAX
    ]


def test_docstrings_begin_with_a_short_summary() -> None:
    assert long_summaries(f'"""{"x" * 81}"""\n\ndef f():\n    """{"y" * 80}"""\n') == [1]
    found = {
        str(path.relative_to(ROOT)): lines
        for path in own_files("src/*.py", "services/*.py", "tests/*.py")
        if (lines := long_summaries(path.read_text()))
    }
    assert found == {}


def prose(page: Path) -> list[tuple[int, str]]:
    """Lines of a page that are neither code nor rows of tables, with their numbers."""
    lines, is_code = [], False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        is_code ^= line.startswith("```")
        if not is_code and not line.startswith("|"):
            lines.append((number, line))
    return lines


def test_folders_stay_small() -> None:
    files = own_files("src/*.py", "services/*.py", "tests/*.py")
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in files)
    crowded = {folder for folder, count in counts.items() if count > FOLDER_FILES_MAX}
    assert crowded == set()


def test_sources_are_those_that_a_reader_has() -> None:
    suspects = own_files("src", "services", "tests", "docs", "*.md", "proto")
    texts = {path: path.read_text() for path in suspects if path.suffix in (".py", ".md", ".json", ".proto", ".fbs")}
    found = [str(path.relative_to(ROOT)) for path, text in texts.items() if OUTSIDE.search(text)]
    assert [name for name in found if name != "tests/unit/test_house.py"] == []


def test_cited_rules_of_the_engine_have_a_heading() -> None:
    page = (ROOT / "docs/engine.md").read_text()
    anchors = {
        re.sub(r"[^\w -]", "", line.strip("# ").lower()).replace(" ", "-")
        for line in page.splitlines()
        if line[:1] == "#"
    }
    cited = {
        (str(path.relative_to(ROOT)), anchor)
        for path in own_files("src/*.py", "services/*.py", "tests/*.py", "docs/*.md", "*.md")
        for anchor in re.findall(r"engine\.md#([\w-]+)", path.read_text())
    }
    assert cited
    assert {(name, anchor) for name, anchor in cited if anchor not in anchors} == set()


@pytest.mark.parametrize("page", own_files(*PAGES), ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_prose_stay_short(page: Path) -> None:
    if not page.is_relative_to(ROOT / "docs/adr"):
        assert [(number, len(line)) for number, line in prose(page) if len(line) > PROSE_CHARACTERS_MAX] == []


def test_pages_use_no_fillers() -> None:
    pages = [page for page in own_files(*PAGES) if not RECORDS_OF_THE_PAST.search(str(page.relative_to(ROOT)))]
    found = [
        (str(page.relative_to(ROOT)), number, filler[0])
        for page in pages
        for number, line in prose(page)
        for filler in FILLERS.finditer(line)
    ]
    assert found == []


def test_code_uses_no_fillers() -> None:
    found = [
        (str(path.relative_to(ROOT)), line[0].strip())
        for path in own_files("src/*.py", "services/*.py", "tests/*.py")
        if not CODE_WITH_FILLERS.match(str(path.relative_to(ROOT)))
        for line in FILLERS_IN_CODE.finditer(path.read_text())
    ]
    assert found == []

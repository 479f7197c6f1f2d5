"""The repository's maps: no dead path, no forgotten specification section."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADINGS: dict[str, list[str]] = json.loads((Path(__file__).parent / "spec_headings.json").read_text())

# Paths are written from the root, or short, as one says them: `usecases/chain/commit`, `odfabric_api/routes`.
BASES = [ROOT, ROOT / "src", ROOT / "src/odfabric", *ROOT.glob("services/*/src")]
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|md))`")

# Keys in an object store, names of datasets, what is made on first use.
NOT_PATHS = ("odfabric/Flow", "odfabric.dev/", "system/audit", "refs/", "info/", "account/", ".odf/")

# Sections that nothing implements yet. It may only shrink.
NOT_YET_MAX = 9


def read_map() -> dict[str, dict[str, tuple[str, str]]]:
    """Document -> section -> (where, test), from the tables of docs/spec-map.md."""
    documents: dict[str, dict[str, tuple[str, str]]] = {}
    document = ""
    for line in (ROOT / "docs/spec-map.md").read_text().splitlines():
        if line.startswith("## "):
            document = line[3:]
            documents[document] = {}
        elif document and line.startswith("| ") and not line.startswith("| section |"):
            section, where, test = (cell.strip() for cell in line.strip("| ").split(" | "))
            documents[document][section] = (where, test)
    return documents


def exists(path: str) -> bool:
    return any((base / (path + suffix)).exists() for base in BASES for suffix in ("", ".py"))


@pytest.mark.parametrize("document", HEADINGS)
def test_every_section_is_listed(document: str) -> None:
    assert list(read_map()[document]) == HEADINGS[document]


def test_every_section_leads_to_code_or_says_why_not() -> None:
    for document, sections in read_map().items():
        for section, (where, test) in sections.items():
            said = where.startswith(("not yet", "background", "differs, ADR", "theirs")) or PATH.search(where)
            assert said, f"{document}, {section}: neither a path nor a reason"
            assert test == "-" or PATH.search(test), f"{document}, {section}: neither a test nor a dash"


def test_the_list_of_sections_not_yet_built_only_shrinks() -> None:
    open_sections = [
        f"{document}: {section}"
        for document, sections in read_map().items()
        for section, (where, _) in sections.items()
        if where.startswith("not yet")
    ]
    assert len(open_sections) <= NOT_YET_MAX, "\n".join(open_sections)
    assert len(open_sections) == NOT_YET_MAX, f"lower NOT_YET_MAX to {len(open_sections)}: it may only shrink"


@pytest.mark.parametrize(
    "page",
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]
    + [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))],
)
def test_every_path_on_a_page_exists(page: str) -> None:
    named = [path for path in PATH.findall((ROOT / page).read_text()) if not path.startswith(NOT_PATHS)]
    beside = (ROOT / page).parent
    assert [path for path in named if not exists(path.rstrip("/")) and not (beside / path).exists()] == []


def test_each_guide_keeps_its_datasets_in_a_workspace_of_its_own() -> None:
    made: Counter[str] = Counter()
    for page in sorted((ROOT / "docs/howto").glob("*.md")):
        blocks = "".join(re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
        if re.search(r"^(?:[A-Z_]+=\S+ )?\./odf (?:init|up)\b", blocks, re.MULTILINE):
            named = re.findall(r"^export ODF_WORKSPACE=\$PWD/(\S+)", blocks, re.MULTILINE)
            assert named, f"{page.name} writes into the workspace of README.md"
            made.update(named)
    assert [name for name, count in made.items() if count > 1] == []
    assert made

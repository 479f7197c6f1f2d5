"""The documentation site: no warning, dead link, unlisted guide or false name."""

import json
import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer.main

from odfabric.cli.app import app
from odfabric.cli.build_docs import build_site, docs
from odfabric.errors import InvalidRequest
from tests.support.site_links import dead_links, loaded_from_elsewhere, read_site

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES_OF_COMMANDS = ["start.md", "threat-model.md", "comparison.md", "index.md"] + [
    str(page.relative_to(DOCS)) for folder in ("concepts", "runbooks", "users") for page in (DOCS / folder).glob("*.md")
]
COMMAND = re.compile(r"(?:\./|`)odf ((?:-[\w-]+ (?:\"[^\"]*\"|\S+) )*)((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
METRIC = re.compile(r"\bodf_[a-z_]+[a-z]")


def test_the_site_is_built_and_every_link_of_it_resolves(tmp_path: Path) -> None:
    assert build_site(DOCS, tmp_path) == 0

    pages = read_site(tmp_path)
    assert dead_links(pages) == []
    assert loaded_from_elsewhere(pages) == [], "the pages are read without a network"
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']*", styles)
    ids = {path.relative_to(tmp_path).as_posix(): page.ids for path, page in pages.items()}
    operations = [
        operation["operationId"]
        for path in json.loads((DOCS / "openapi.json").read_text())["paths"].values()
        for operation in path.values()
    ]
    assert {f"rest-route-{_slug(name)}" for name in operations} <= ids["reference/rest.html"]
    events = json.loads((DOCS / "asyncapi.json").read_text())["components"]["messages"]
    assert {f"event-{name.replace('.', '-')}" for name in events} <= ids["reference/events.html"]
    assert {f"command-{'-'.join(verb)}" for verb in verbs()} <= ids["reference/commands.html"]
    assert "Time zone of --cron" in (tmp_path / "reference/commands.html").read_text(), "nothing is made typographic"
    assert "manifest-readstepcsv" in ids["reference/manifest.html"]


@pytest.mark.parametrize(
    "link",
    ["[a](nowhere.md)", "[a](other.md#nowhere)", "[a](#nowhere)", "![a](nowhere.png)", "```{toctree}\nnowhere\n```"],
)
def test_a_link_to_nowhere_fails_the_build(link: str, tmp_path: Path) -> None:
    sources = tmp_path / "docs"
    sources.mkdir()
    (sources / "index.md").write_text(f"# Index\n\n{link}\n\n```{{toctree}}\nother\n```\n")
    (sources / "other.md").write_text("# Other\n")
    assert build_site(sources, tmp_path / "out") != 0


def test_dead_links_of_finished_pages_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a><a href="#gone"></a>'
        '<img src="d.png"><script src="https://elsewhere.example/x.js"></script><a href="https://elsewhere.example"></a>'
    )
    pages = read_site(tmp_path)
    assert dead_links(pages) == ["a.html: b.html#gone", "a.html: c.html", "a.html: #gone", "a.html: d.png"]
    assert loaded_from_elsewhere(pages) == ["a.html: https://elsewhere.example/x.js"]


def test_every_guide_is_in_the_list_of_one_user() -> None:
    listed: Counter[str] = Counter()
    guides = [f"../howto/{page.stem}" for page in (DOCS / "howto").glob("*.md")]
    for page in (DOCS / "users").glob("*.md"):
        for entries in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            patterns = [line for line in entries.splitlines() if line and not line.startswith(":")]
            listed.update(guide for guide in guides if any(fnmatch(guide, pattern) for pattern in patterns))
    assert [guide for guide in guides if listed[guide] != 1] == []


def test_what_start_here_runs_is_what_the_readme_runs() -> None:
    blocks = re.compile(r"^```sh\n.*?^```$", re.MULTILINE | re.DOTALL)
    shown = blocks.findall((DOCS / "start.md").read_text())
    assert shown
    assert [block for block in shown if block not in blocks.findall((ROOT / "README.md").read_text())] == []


@pytest.mark.parametrize("page", PAGES_OF_COMMANDS)
def test_commands_and_metrics_of_a_page_exist(page: str) -> None:
    text = (DOCS / page).read_text()
    known = verbs()
    named = [tuple(words.split()) for _, words in COMMAND.findall(text)]
    assert [" ".join(words) for words in named if not any(words[: len(verb)] == verb for verb in known)] == []
    code = "".join(path.read_text() for path in (ROOT / "src/odfabric").rglob("*metrics.py"))
    metrics = {name.removesuffix("_total") for name in METRIC.findall(text)}
    assert {name for name in metrics if f'"{name}"' not in code} == set()


def test_the_site_is_not_built_into_its_sources() -> None:
    with pytest.raises(InvalidRequest, match="has the sources"):
        docs(out=str(DOCS / "built"))


def verbs() -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()

    def look(command: Any, path: tuple[str, ...]) -> None:
        for name, one in getattr(command, "commands", {}).items():
            look(one, (*path, name))
        if not getattr(command, "commands", {}):
            found.add(path)

    look(typer.main.get_command(app), ())
    return found


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

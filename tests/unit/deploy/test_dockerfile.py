"""The two images have what their processes need, and nothing else.

No build tools, and nothing that a process could overwrite.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from odfabric import __version__
from odfabric.adapters.sql.upgrade import MIGRATIONS

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "Dockerfile"
LABELS = ("title", "description", "version", "revision", "source", "licenses")

Stage = list[tuple[str, str]]


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    """Instructions of each stage, continued lines joined."""
    found: dict[str, Stage] = {}
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found[rest.partition(" AS ")[2]] = stage = []
        stage.append((word, rest))
    return found


def copied(stage: Stage) -> set[str]:
    """What a stage takes from the checkout."""
    words = [rest.split() for word, rest in stage if word == "COPY" and not rest.startswith("--from=")]
    return {source for each in words for source in each[:-1]}


def test_hadolint_has_no_complaint() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    checked = subprocess.run(
        [hadolint, "--failure-threshold", "info", DOCKERFILE], capture_output=True, text=True, cwd=ROOT
    )
    assert checked.returncode == 0, checked.stdout


def test_everything_that_is_copied_is_there_and_not_ignored(stages: dict[str, Stage]) -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*"
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    wanted = {source for stage in stages.values() for source in copied(stage)}
    assert all((ROOT / source).exists() for source in wanted)
    assert {source.partition("/")[0] for source in wanted} == let_in
    assert MIGRATIONS.relative_to(ROOT).as_posix() in copied(stages["node"])


@pytest.mark.parametrize("image", ["node", "engine"])
def test_build_tools_stay_behind(stages: dict[str, Stage], image: str) -> None:
    assert ("COPY", f"--from={image}-packages /app/.odf .odf") in stages[image]
    (made,) = [rest for word, rest in stages[f"{image}-packages"] if word == "RUN"]
    assert made.startswith(f"python3 -I locks/install.py /app boot {image} ")
    assert "uv pip uninstall" in made
    assert "--requirements locks/boot.lock pip" in made
    assert not any("install.py" in rest for _, rest in stages[image])


@pytest.mark.parametrize("image", ["node", "engine"])
def test_an_image_runs_as_a_user_who_owns_no_code(stages: dict[str, Stage], image: str) -> None:
    base = dict(stages["base"])
    user = re.search(r"useradd --uid (\d+) ", base["RUN"])
    assert user is not None
    words = [word for word, _ in stages[image]]
    assert ("USER", f"{user[1]}:{user[1]}") in stages[image]
    assert words.index("USER") > max(at for at, word in enumerate(words) if word in ("COPY", "RUN"))
    assert not any("--chown" in rest or "--chmod" in rest for _, rest in stages[image])
    assert "PYTHONDONTWRITEBYTECODE=1" in base["ENV"]


@pytest.mark.parametrize("image", ["node", "engine"])
def test_an_image_says_what_it_is(stages: dict[str, Stage], image: str) -> None:
    (labels,) = [rest for word, rest in stages[image] if word == "LABEL"]
    found = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', labels))
    assert set(found) == set(LABELS)
    assert (found["title"], found["licenses"]) == (f"odfabric {image}", "Apache-2.0")
    assert (found["version"], found["revision"], found["source"]) == ("$VERSION", "$REVISION", "$SOURCE")
    assert ("ARG", f"VERSION={__version__}") in stages[image]


def test_the_base_is_one_release_of_python_and_debian(stages: dict[str, Stage]) -> None:
    assert re.fullmatch(r"python:3\.11-slim-[a-z]+ AS base", dict(stages["base"])["FROM"])

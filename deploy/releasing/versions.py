"""The version of a release, and every place that names it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from deploy.releasing.outcome import Outcome

OWN_IMAGES = ("odfabric-node", "odfabric-engine")
COMPOSE_FILES = ("docker-compose.yml", "docker-compose.cluster.yml")
CHART = "deploy/helm/odfabric"


def version_of(root: Path) -> str:
    """The version in `pyproject.toml`, which the other places repeat."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return found


def named_versions(root: Path) -> dict[str, str]:
    """Place -> version of the code and the chart, besides `pyproject.toml`."""
    code = re.search(r'^__version__ = "(.+)"$', (root / "src/odfabric/__init__.py").read_text(), re.MULTILINE)
    chart = _yaml(root / CHART / "Chart.yaml")
    labels = re.findall(r"^ARG VERSION=(.+)$", (root / "Dockerfile").read_text(), re.MULTILINE)
    return {
        "src/odfabric/__init__.py": code[1] if code else "none",
        f"{CHART}/Chart.yaml version": str(chart["version"]),
        f"{CHART}/Chart.yaml appVersion": str(chart["appVersion"]),
        "Dockerfile": " and ".join(sorted(set(labels))) or "none",
    }


def image_tags(root: Path) -> dict[str, str]:
    """Place -> image, with its tag, for everything that runs an image of ours."""
    images = _yaml(root / CHART / "values.yaml")["images"]
    found = {f"{CHART}/values.yaml {name}": str(images[name]) for name in ("node", "engine")}
    for file in COMPOSE_FILES:
        for name, service in _yaml(root / file)["services"].items():
            if "build" in service:
                found[f"{file} {name}"] = str(service.get("image", "none"))
    return found


def check_versions(root: Path) -> Outcome:
    """Code and chart name the version of `pyproject.toml`."""
    version = version_of(root)
    others = [f"{place} has {named}" for place, named in named_versions(root).items() if named != version]
    return Outcome("versions", not others, "; ".join(others) or version, f"Write {version} there")


def check_images(root: Path) -> Outcome:
    """Compose files and chart run images of this version."""
    version, tags = version_of(root), image_tags(root)
    wanted = {f"{name}:{version}" for name in OWN_IMAGES}
    others = [f"{place} has {image}" for place, image in tags.items() if image not in wanted]
    return Outcome("images", not others, "; ".join(others) or f"{len(tags)} places name {version}", f"Tag {version}")


def check_tag(root: Path) -> Outcome:
    """The version has not been released yet."""
    tag = f"v{version_of(root)}"
    known = subprocess.run(["git", "tag", "--list", tag], cwd=root, capture_output=True, text=True, check=True)
    found = f"{tag} exists" if known.stdout.strip() else f"{tag} is free"
    return Outcome("tag", not known.stdout.strip(), found, "Raise the version (docs/howto/release.md)")


def _yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)

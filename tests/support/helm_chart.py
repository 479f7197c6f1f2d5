"""A chart as Helm itself renders it, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python
from ruamel.yaml import YAML

NOTES = "NOTES.txt"


def rendered(chart: Path, changes: Mapping[str, Any] | None = None, *, release: str = "node") -> list[dict[str, Any]]:
    """All objects of a chart, with changes to its values by dotted name."""
    reader = YAML(typ="safe", pure=True)
    texts = _texts(chart, changes or {}, release)
    return [each for name, text in texts.items() if not name.endswith(NOTES) for each in reader.load_all(text) if each]


def notes(chart: Path, changes: Mapping[str, Any] | None = None, *, release: str = "node") -> str:
    """What Helm shows after an installation."""
    (text,) = [text for name, text in _texts(chart, changes or {}, release).items() if name.endswith(NOTES)]
    return text


def refusal(chart: Path, changes: Mapping[str, Any]) -> str:
    """Why Helm does not render the chart with these changes."""
    try:
        _texts(chart, changes, "node")
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError(f"Helm renders the chart with {changes}")


def complaints(chart: Path) -> list[str]:
    """What `helm lint` says, without the icon that charts in catalogues have."""
    found = helm_python.lint(str(chart))
    said = [f"{each['path']}: {each['error']}" for each in found["messages"]]
    return [*found["errors"], *(each for each in said if each != "Chart.yaml: icon is recommended")]


def _texts(chart: Path, changes: Mapping[str, Any], release: str) -> dict[str, str]:
    values: dict[str, Any] = {}
    for name, value in changes.items():
        *folders, last = name.split(".")
        place = values
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    with helm_python.Chart.load(str(chart)) as loaded:
        texts: dict[str, str] = loaded.render(values, name=release, namespace="data")
        return texts

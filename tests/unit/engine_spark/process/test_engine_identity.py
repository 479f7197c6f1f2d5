"""What the engine says about itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from odfabric_engine_spark.process import digest as digest_module
from odfabric_engine_spark.process.digest import ENGINE_VERSION, engine_digest
from odfabric_engine_spark.serve.crash_points import CRASH_POINTS

ROOT = Path(__file__).resolve().parents[4]


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == ENGINE_VERSION


def test_the_digest_covers_sources_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = engine_digest(17)
    assert len(digest) == 64
    assert digest == engine_digest(17)
    monkeypatch.setattr(digest_module, "version", lambda package: "0")
    other_packages = engine_digest(17)
    monkeypatch.setattr(digest_module, "OWN_PACKAGES", ("odfabric_engine_spark", "odfabric.formats", "odfabric.model"))
    assert len({digest, other_packages, engine_digest(17)}) == 3


def test_the_digest_covers_all_that_the_engine_runs() -> None:
    folder = ROOT / "services" / "engine-spark" / "src" / "odfabric_engine_spark"
    launcher = (
        folder / "process" / "executor_java" / "bin" / "java"
    )  # it starts executors' Java and is part of no result
    present = {
        f"odfabric_engine_spark/{path.relative_to(folder)}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path != launcher and path.name != "README.md"
    }
    assert present <= {name for name, _ in digest_module.digested_files()}


def test_crash_points_are_of_this_process() -> None:
    assert len(CRASH_POINTS) == len(set(CRASH_POINTS))
    assert all(name.startswith("engine-process.") for name in CRASH_POINTS)

"""Every scenario of the storage library, on every pair of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from tests.persist.cases import documents
from tests.persist.scenario import Runner

SCENARIOS = [scenario for document in documents() for scenario in document["scenarios"]]
NOT_BUILT = {"spine-exact"}
"""Profiles that the cases call optional, and which this library does not offer: its list of batches has tiers instead."""


@pytest.fixture(params=["memory", "folder"])
def blob(request: pytest.FixtureRequest, tmp_path: Path) -> Blob:
    kinds: dict[str, Callable[[], Blob]] = {
        "memory": lambda: MemoryBlob(keeps_deleted=True),
        "folder": lambda: FolderBlob(tmp_path / "blobs"),
    }
    return kinds[request.param]()


@pytest.fixture(params=["memory", "sqlite"])
def consensus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Consensus]:
    if request.param == "memory":
        yield MemoryConsensus()
        return
    found = SqliteConsensus(tmp_path / "versions.db")
    yield found
    found.close()


def runs_here(scenario: dict[str, Any]) -> bool:
    return scenario["profile"] not in NOT_BUILT


@pytest.mark.parametrize("scenario", list(filter(runs_here, SCENARIOS)), ids=lambda scenario: scenario["id"])
def test_scenario(scenario: dict[str, Any], blob: Blob, consensus: Consensus) -> None:
    if scenario["profile"] == "undelete" and isinstance(blob, FolderBlob):
        blob = MemoryBlob(keeps_deleted=True)  # the cases ask for a store that can undelete, which a folder is not
    Runner(blob, consensus, scenario.get("config", {})).run(scenario["steps"])


def test_every_operation_that_the_cases_list_is_known_and_exercised() -> None:
    listed = {name for document in documents() for names in document.get("ops", {}) for name in names.split(" / ")}
    assert {name for name in listed if not hasattr(Runner, "_" + name.replace("-", "_"))} == set()
    assert listed - {step["do"] for scenario in SCENARIOS for step in scenario["steps"]} == set()


def test_there_are_scenarios() -> None:
    assert len([scenario for scenario in SCENARIOS if runs_here(scenario)]) >= 20

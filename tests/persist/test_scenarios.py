"""Every scenario of the storage library, on every pair of stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.s3_blob import S3Blob
from tests.persist.cases import documents
from tests.persist.scenario import Runner
from tests.persist.stores import address_of, closing_consensus, fresh_place

SCENARIOS = [scenario for document in documents() for scenario in document["scenarios"]]
NOT_BUILT = {"spine-exact"}
"""Profiles that the cases call optional, and which this library does not offer: its list of batches has tiers instead."""


PAIRS = [
    ("memory", "memory"),
    ("memory", "sqlite"),
    ("folder", "memory"),
    ("folder", "sqlite"),
    ("folder", "postgres"),
    ("s3", "postgres"),
    ("s3", "s3"),
]
"""Where blobs lie, and where versions."""


@pytest.fixture(params=PAIRS, ids="+".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Blob, Consensus]]:
    blobs, versions = request.param
    with ExitStack() as stack:
        blob: Blob = MemoryBlob(keeps_deleted=True)
        if blobs == "folder":
            blob = FolderBlob(tmp_path / "blobs")
        elif blobs == "s3":
            blob = stack.enter_context(closing(S3Blob(fresh_place(request, keeps_versions=True))))
        consensus: Consensus = MemoryConsensus()
        if versions != "memory":
            consensus = stack.enter_context(closing_consensus(address_of(versions, request, tmp_path)))()
        yield blob, consensus


def runs_here(scenario: dict[str, Any]) -> bool:
    return scenario["profile"] not in NOT_BUILT


@pytest.mark.parametrize("scenario", list(filter(runs_here, SCENARIOS)), ids=lambda scenario: scenario["id"])
def test_scenario(scenario: dict[str, Any], pair: tuple[Blob, Consensus]) -> None:
    blob, consensus = pair
    if scenario["profile"] == "undelete" and isinstance(blob, FolderBlob):
        blob = MemoryBlob(keeps_deleted=True)  # the cases ask for a store that can undelete, which a folder is not
    Runner(blob, consensus, scenario.get("config", {})).run(scenario["steps"])


def test_every_operation_that_the_cases_list_is_known_and_exercised() -> None:
    listed = {name for document in documents() for names in document.get("ops", {}) for name in names.split(" / ")}
    assert {name for name in listed if not hasattr(Runner, "_" + name.replace("-", "_"))} == set()
    assert listed - {step["do"] for scenario in SCENARIOS for step in scenario["steps"]} == set()


def test_there_are_scenarios() -> None:
    assert len([scenario for scenario in SCENARIOS if runs_here(scenario)]) >= 20

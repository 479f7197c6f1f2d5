"""What is said of a copied derivative where its input is a copy, too.

`ours` has `readings` and `copied`, which reads it; `theirs` pulls both from a shelf, perhaps at different times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import JobStatus
from odfabric.model.jobs.requests import CompactRequest, PullRequest, SendWish
from odfabric.model.why_request import WhyRequest
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED
from tests.usecases.transfer.sharing import SHELF, Parties, ended

COPIED = f"{SHELF}local/copied/"


class Copies:
    """The two nodes, and what can happen to them."""

    def __init__(self, folder: Path) -> None:
        self.parties = Parties(folder)
        ours = self.parties.ours
        self.copied = ours.add(DERIVED)
        shelf = type(ours.objects)(ours.clock)
        for node in (ours, self.parties.theirs):
            node.remote_stores.share(COPIED, shelf)

    def derive(self) -> None:
        request = PullRequest(dataset=self.copied.id, alias=self.copied.alias)
        assert "code" not in ended(self.parties.ours, self.parties.ours.node.requests.pull(request))
        node = self.parties.ours.node
        sent = ended(self.parties.ours, node.sharing.push(self.copied, SendWish(to="shelf"), by=node.operator))
        assert "code" not in sent, sent

    def publish(self, *, signed: bool = True) -> None:
        assert "code" not in self.parties.push(force=True)
        if not signed:
            for name in ("refs/head.log", "refs/head.sig"):
                self.parties.shelf.delete(name)

    def pull(self, *, force: bool = False) -> None:
        found = self.parties.pull(force=force, name="readings")
        assert "code" not in found, found

    def pull_copied(self) -> CatalogEntry:
        node = self.parties.theirs.node
        alias = DatasetAlias(Name("local"), Name("copied"))
        url = node.sharing.names.source_url("shelf/local/copied", node.operator)
        found = ended(
            self.parties.theirs, node.requests.pull(PullRequest(dataset=None, alias=alias, url=url, force=False))
        )
        assert "code" not in found, found
        return node.datasets.resolve(self.copied.id)

    def compact(self) -> None:
        entry, ours = self.parties.entry, self.parties.ours
        job = ours.finish(ours.node.history.compact(entry, CompactRequest(dataset=entry.id)))
        assert job.status is JobStatus.SUCCEEDED

    def why(self, offset: int = 0) -> dict[str, Any]:
        node = self.parties.theirs.node
        answer: Any = node.provenance.why(node.datasets.resolve(self.copied.id), WhyRequest(offsets=(offset,)))
        end: dict[str, Any] = answer["records"][-1]["end"]
        return end

    def verify(self) -> dict[str, Any]:
        theirs = self.parties.theirs
        entry = theirs.node.datasets.resolve(self.copied.id)
        job = theirs.finish(theirs.node.requests.verify(entry, VerifyOptions()))
        value: dict[str, Any] = json.loads(job.result or "{}")
        return value


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    found = Copies(tmp_path)
    found.parties.ingest(1)
    found.parties.ingest(2)
    return found


def test_both_as_they_were(copies: Copies) -> None:
    copies.publish()
    copies.derive()
    copies.pull()
    copies.pull_copied()
    assert copies.why()["reason"] == "root"
    assert copies.verify() == {"ok": True, "errors": []}


@pytest.mark.parametrize("signed", [True, False], ids=["log", "no-log"])
def test_an_input_that_is_older_here_was_not_rewritten(copies: Copies, signed: bool) -> None:
    copies.publish(signed=signed)
    copies.pull()
    copies.parties.ingest(3)
    copies.derive()
    copies.pull_copied()
    end = copies.why()
    assert end["reason"] == "not-here"
    assert "local/readings (block " in end["message"]
    assert [one["dataset"] for one in end["inputs"]] == [str(copies.parties.entry.id)]
    report = copies.verify()
    assert (report["ok"], "lacks the block" in report["skipped"][0]) == (True, True)
    copies.publish(signed=signed)
    copies.pull()
    assert copies.why()["reason"] == "root"


def test_a_compaction_that_came_with_its_log_keeps_the_rows(copies: Copies) -> None:
    copies.publish()
    copies.derive()
    copies.pull()
    copies.pull_copied()
    copies.compact()
    copies.publish()
    copies.pull(force=True)
    assert copies.why()["reason"] == "root"
    assert copies.verify()["ok"]


def test_a_compaction_without_a_log_is_another_history(copies: Copies) -> None:
    copies.publish(signed=False)
    copies.derive()
    copies.pull()
    copies.pull_copied()
    copies.compact()
    copies.publish(signed=False)
    copies.pull(force=True)
    end = copies.why()
    assert end["reason"] == "rewritten"
    assert "local/readings was replaced at" in end["message"]
    assert "`odf pull local/copied --force` brings it" in end["message"]


@pytest.mark.parametrize("signed", [True, False], ids=["log", "no-log"])
def test_a_reset_takes_rows_away_with_a_log_or_without(copies: Copies, signed: bool) -> None:
    copies.publish(signed=signed)
    copies.derive()
    copies.pull()
    copies.pull_copied()
    copies.parties.rewrite(3)
    copies.parties.ingest(9)
    copies.publish(signed=signed)
    copies.pull(force=True)
    end = copies.why()
    assert end["reason"] == "rewritten"
    assert f"local/readings was {'reset' if signed else 'replaced'} at" in end["message"]


@pytest.mark.parametrize("signed", [True, False], ids=["log", "no-log"])
def test_a_node_that_never_had_what_was_read(copies: Copies, signed: bool) -> None:
    copies.publish()
    copies.derive()
    copies.compact()
    copies.publish(signed=signed)
    copies.pull()
    copies.pull_copied()
    end, report = copies.why(), copies.verify()
    assert report["ok"], "the copy has no fault"
    if signed:
        assert end["reason"] == "rewritten"
        assert "local/readings was compacted at" in end["message"]
        assert "was compacted at" in report["skipped"][0]
    else:
        assert end["reason"] == "not-here"
        assert "they are older here, or were rewritten" in end["message"]
        assert "lacks the block" in report["skipped"][0]

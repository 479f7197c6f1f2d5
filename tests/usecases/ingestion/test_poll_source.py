"""Honest polling: what is asked, taken, passed over, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.memory.sources.egress import MemoryPage
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.polling.known_files import KnownFiles
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.wiring.node import Node
from tests.usecases.manifests import POLLED

URL = "https://data.example/rows.ndjson"
LEDGER = "{kind: Ledger, primaryKey: [event_time, city]}"
APPEND = "{kind: Append}"


class Story:
    """A node, and a dataset that polls a URL or a folder."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.arrived = 0

    def polls(self, merge: str, *, folder: bool = False, fetch: str = f"{{kind: Url, url: '{URL}'}}") -> CatalogEntry:
        manifest = POLLED.replace(LEDGER, merge)
        return self.memory.add(
            manifest if folder else manifest.replace("{kind: FilesGlob, path: 'arrivals/*.ndjson'}", fetch)
        )

    def serve(self, text: str, *, etag: str | None = None, date: str | None = None, status: int = 200) -> None:
        self.memory.http.pages[URL] = MemoryPage(body=text.encode(), etag=etag, last_modified=date, status=status)

    def arrive(self, name: str, text: str, *, at: Instant | None = None) -> None:
        self.arrived += 1
        self.memory.files.add(
            f"arrivals/{name}",
            text.encode(),
            modified_at=at or Instant(START.epoch_ns + self.arrived * NANOS_PER_SECOND),
        )

    def job(self, entry: CatalogEntry, **wishes: bool) -> Job:
        return self.memory.finish(
            self.memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias, **wishes))
        )

    def pull(self, entry: CatalogEntry, **wishes: bool) -> dict[str, object]:
        job = self.job(entry, **wishes)
        assert job.status is JobStatus.SUCCEEDED, job.error
        value: dict[str, object] = json.loads(job.result or "")
        return value

    def cities(self, entry: CatalogEntry) -> list[object]:
        asked = ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None)
        return sorted(row["city"] for row in self.memory.node.rows.tail(entry, asked)["data"])  # type: ignore[attr-defined]

    def states(self, entry: CatalogEntry) -> list[str | None]:
        events = [link.block.event for link in self.memory.node.datasets.log(entry, limit=100)]
        states = [event.new_source_state for event in events if isinstance(event, AddData)][::-1]
        return [None if state is None else state.value for state in states]

    def asked(self) -> tuple[str | None, str | None]:
        last = self.memory.http.requests[-1]
        return last.etag, last.last_modified


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def rows(*cities: str) -> str:
    return "".join(json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}) + "\n" for city in cities)


class TestUrls:
    def test_a_server_without_validators_is_asked_again_where_a_key_tells_what_is_new(self, story: Story) -> None:
        entry = story.polls(LEDGER)
        story.serve(rows("A"))
        assert story.pull(entry)["rows"] == 1
        story.serve(rows("A", "B"))
        second = story.pull(entry)
        assert (second["rows"], second["poll"]["outcome"], second["poll"]["status"]) == (1, "taken", 200)  # type: ignore[index]
        assert story.cities(entry) == ["A", "B"]
        third = story.pull(entry)
        assert (third["upToDate"], third["poll"]["outcome"]) == (True, "same-content")  # type: ignore[index]
        assert len(story.memory.http.requests) == 3
        assert story.states(entry) == [None, None]

    def test_rows_are_not_appended_twice_unless_that_is_wanted(self, story: Story) -> None:
        entry = story.polls(APPEND)
        story.serve(rows("A"))
        story.pull(entry)
        assert story.pull(entry)["poll"]["outcome"] == "same-content"  # type: ignore[index]
        assert story.pull(entry, fetch_uncacheable=True)["upToDate"] is True
        story.serve(rows("A", "B"))
        refused = story.pull(entry)
        assert refused["upToDate"] is True
        assert refused["poll"]["outcome"] == "uncacheable"  # type: ignore[index]
        assert "--fetch-uncacheable" in refused["poll"]["hint"]  # type: ignore[index]
        assert "no ETag" in refused["poll"]["message"]  # type: ignore[index]
        assert story.cities(entry) == ["A"]
        assert story.pull(entry, fetch_uncacheable=True)["rows"] == 2
        assert story.cities(entry) == ["A", "A", "B"]

    def test_the_answer_says_which_validators_were_sent_and_what_came_back(self, story: Story) -> None:
        entry = story.polls(APPEND)
        story.serve(rows("A"), etag='"1"')
        first = story.pull(entry)["poll"]
        assert first == {"source": URL, "outcome": "taken", "status": 200, "message": first["message"]}  # type: ignore[index]
        assert "without validators" in first["message"]  # type: ignore[index]
        second = story.pull(entry)
        assert second["poll"]["asked"] == {"If-None-Match": '"1"'}  # type: ignore[index]
        assert (second["upToDate"], second["poll"]["status"], second["poll"]["outcome"]) == (True, 304, "not-modified")  # type: ignore[index]
        assert 'If-None-Match: "1"' in second["poll"]["message"]  # type: ignore[index]

    def test_the_same_content_under_another_tag_is_remembered_and_not_appended(self, story: Story) -> None:
        entry = story.polls(APPEND)
        story.serve(rows("A"), etag='"1"')
        story.pull(entry)
        story.serve(rows("A"), etag='"2"')
        again = story.pull(entry)
        assert (again["rows"], again["upToDate"], again["poll"]["outcome"]) == (0, False, "same-content")  # type: ignore[index]
        assert story.pull(entry)["poll"]["status"] == 304  # type: ignore[index]
        assert (story.states(entry), story.cities(entry)) == (['"1"', '"2"'], ["A"])

    def test_a_date_in_the_future_is_asked_about(self, story: Story) -> None:
        entry = story.polls(APPEND)
        date = "Fri, 01 Jan 2038 00:00:00 GMT"
        story.serve(rows("A"), date=date)
        story.pull(entry)
        assert story.states(entry) == ["2038-01-01T00:00:00Z"]
        assert story.pull(entry)["poll"]["asked"] == {"If-Modified-Since": date}  # type: ignore[index]

    @pytest.mark.parametrize(
        ("status", "code"), [(401, "access-denied"), (403, "access-denied"), (404, "not-found"), (410, "not-found")]
    )
    def test_a_refusal_is_final_at_once_and_says_how_to_send_a_credential(
        self, story: Story, status: int, code: str
    ) -> None:
        entry = story.polls(APPEND)
        story.serve("", status=status)
        job = story.job(entry)
        problem = json.loads(job.error or "")
        assert (job.status, problem["code"], len(story.memory.http.requests)) == (JobStatus.FAILED, code, 1)
        assert str(status) in problem["message"] + problem["hint"]
        assert "header" in problem["hint"]
        assert "${{ env." in problem["hint"]

    def test_a_changed_source_reads_the_same_content_again_where_a_key_makes_it_harmless(self, story: Story) -> None:
        entry = story.polls(LEDGER)
        story.serve(rows("A"))
        story.pull(entry)
        manifest = POLLED.replace(
            "{kind: FilesGlob, path: 'arrivals/*.ndjson'}",
            f"{{kind: Url, url: '{URL}', headers: [{{name: X, value: y}}]}}",
        )
        (snapshot,) = parse_snapshots(manifest, file="x")
        story.memory.node.editing.set_source(snapshot, story.memory.node.operator)
        assert story.pull(entry)["poll"]["outcome"] == "nothing-new"  # type: ignore[index]


class TestBodiesOfFailedPulls:
    def test_a_failed_parse_is_repeated_without_fetching_the_body(self, story: Story) -> None:
        entry = story.polls(APPEND)
        story.serve("oops\n", etag='"1"')
        assert story.job(entry).status is JobStatus.FAILED
        assert story.job(entry).status is JobStatus.FAILED
        assert story.asked() == ('"1"', None)
        story.serve(rows("A"), etag='"2"')
        recovered = story.pull(entry)
        assert (recovered["rows"], recovered["poll"].get("resumed")) == (1, None)  # type: ignore[attr-defined]
        assert story.states(entry) == ['"2"']

    def corrected(self, story: Story) -> CatalogEntry:
        """A dataset whose first pull has failed at its schema, which was corrected since."""
        wrong = POLLED.replace("{kind: FilesGlob, path: 'arrivals/*.ndjson'}", f"{{kind: Url, url: '{URL}'}}").replace(
            "{name: city, type: String}", "{name: city, type: Int64}"
        )
        entry = story.memory.add(wrong)
        assert story.job(entry).status is JobStatus.FAILED
        (snapshot,) = parse_snapshots(wrong.replace("Int64", "String"), file="x.yaml")
        story.memory.node.editing.set_source(snapshot, story.memory.node.operator)
        return entry

    def test_a_kept_body_is_used_once_the_source_is_corrected(self, story: Story) -> None:
        story.serve(rows("A"), etag='"1"')
        entry = self.corrected(story)
        poll = story.pull(entry)["poll"]
        assert story.asked() == ('"1"', None)
        assert (poll["status"], poll["outcome"], poll["resumed"]) == (304, "taken", True)  # type: ignore[index]
        assert "kept from the failed pull" in poll["message"]  # type: ignore[index]
        assert (story.states(entry), story.cities(entry)) == (['"1"'], ["A"])
        assert "resumed" not in story.pull(entry)["poll"]  # type: ignore[operator]

    def test_a_kept_body_is_used_while_its_server_cannot_be_reached(self, story: Story) -> None:
        story.serve(rows("A"))
        entry = self.corrected(story)
        story.serve("", status=503)
        poll = story.pull(entry)["poll"]
        assert (poll["resumed"], poll["outcome"], "status" in poll) == (True, "taken", False)  # type: ignore[index,operator]
        assert "503" in poll["unreachable"]  # type: ignore[index]
        assert story.cities(entry) == ["A"]

    def test_a_kept_body_is_left_where_that_is_wanted(self, story: Story) -> None:
        story.serve(rows("A"), etag='"1"')
        entry = self.corrected(story)
        poll = story.pull(entry, fetch_again=True)["poll"]
        assert story.asked() == (None, None)
        assert (poll["status"], "resumed" in poll) == (200, False)  # type: ignore[index,operator]


class TestFolders:
    def test_a_later_number_is_read_after_a_smaller_one(self, story: Story) -> None:
        entry = story.polls(APPEND, folder=True)
        story.arrive("part-9.ndjson", rows("9"))
        story.arrive("part-10.ndjson", rows("10"))
        assert story.pull(entry)["rows"] == 2
        assert story.states(entry) == ["part-9.ndjson", "part-9.ndjson"]
        story.arrive("part-11.ndjson", rows("11"))
        assert story.pull(entry)["rows"] == 1
        assert story.cities(entry) == ["10", "11", "9"]
        assert story.pull(entry)["poll"]["outcome"] == "not-modified"  # type: ignore[index]

    def test_what_was_read_is_known_to_another_process(self, story: Story) -> None:
        entry = story.polls(APPEND, folder=True)
        for number in (8, 9, 10):
            story.arrive(f"part-{number}.ndjson", rows(str(number)))
        story.pull(entry)
        forgotten = replace(story.memory.node.ports.sources, known_files=KnownFiles())
        story.memory.node = Node(replace(story.memory.node.ports, sources=forgotten), story.memory.settings)
        assert story.pull(entry)["upToDate"] is True
        assert story.cities(entry) == ["10", "8", "9"]

    def test_a_late_file_is_read_once_where_order_does_not_matter(self, story: Story) -> None:
        entry = story.polls(LEDGER, folder=True)
        story.arrive("2.ndjson", rows("B"))
        story.pull(entry)
        story.arrive("1.ndjson", rows("A"))
        assert story.pull(entry)["rows"] == 1
        assert story.pull(entry)["upToDate"] is True
        assert (story.cities(entry), story.states(entry)) == (["A", "B"], ["2.ndjson", "2.ndjson"])

    def test_a_replaced_file_is_read_again_where_a_key_makes_it_harmless(self, story: Story) -> None:
        entry = story.polls(LEDGER, folder=True)
        story.arrive("1.ndjson", rows("A"))
        story.pull(entry)
        story.arrive("1.ndjson", rows("A", "B"))
        assert story.pull(entry)["rows"] == 1
        assert story.pull(entry)["upToDate"] is True

    def test_a_replaced_file_is_named_where_its_rows_would_repeat(self, story: Story) -> None:
        entry = story.polls(APPEND, folder=True)
        story.arrive("1.ndjson", rows("A"))
        story.pull(entry)
        story.arrive("1.ndjson", rows("A", "B"))
        told = story.pull(entry)["poll"]
        assert [(file["name"], file["reason"]) for file in told["passedOver"]] == [("1.ndjson", "replaced")]  # type: ignore[index]
        assert "new name" in told["hint"]  # type: ignore[index]
        story.arrive("2.ndjson", rows("C"))
        assert story.pull(entry)["rows"] == 1
        assert story.cities(entry) == ["A", "C"]

    def test_a_file_that_was_only_touched_is_the_same(self, story: Story) -> None:
        entry = story.polls(APPEND, folder=True)
        story.arrive("1.ndjson", rows("A"))
        story.pull(entry)
        story.arrive("1.ndjson", rows("A"))
        poll = story.pull(entry)["poll"]
        assert (poll["outcome"], "passedOver" in poll) == ("not-modified", False)  # type: ignore[index,operator]

    def test_a_file_without_new_rows_is_read_once_by_a_process(self, story: Story) -> None:
        entry = story.polls(LEDGER, folder=True)
        story.arrive("2.ndjson", rows("A"))
        story.arrive("1.ndjson", rows("A"))
        story.pull(entry)
        story.arrive("0.ndjson", rows("A"))
        outcomes = [story.pull(entry)["poll"]["outcome"] for _ in range(2)]  # type: ignore[index]
        assert outcomes == ["nothing-new", "not-modified"]

    def test_more_files_than_a_pull_takes_are_a_limit_and_the_next_pull_continues(self, story: Story) -> None:
        entry = story.polls(APPEND, folder=True)
        for number in range(3):
            story.arrive(f"{number}.ndjson", rows(str(number)))
        story.memory.settings = story.memory.settings.model_copy(update={"poll_files_max": 2})
        story.memory.restart()
        job = story.job(entry)
        assert json.loads(job.error or "")["limit"] == "poll_files_max"
        story.arrive("3.ndjson", rows("3"))
        assert story.pull(entry)["rows"] == 2, "as many as one pull takes"
        assert story.cities(entry) == ["0", "1", "2", "3"]

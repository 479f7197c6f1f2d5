"""Where records of roots were in what was pushed, as an answer says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from odfabric.cli.provenance.why_text import why_tree
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.test_ask_why import Story


def push(story: Story, key: str, *times: str) -> None:
    lines = [json.dumps({"event_time": time, "city": f"city {number}"}) for number, time in enumerate(times)]
    body = "\n".join(lines).encode()
    request = PushData(dataset=story.readings.id, body=iter([body]), idempotency_key=key)
    job = story.memory.node.requests.push(request)
    assert isinstance(job, Job)
    assert story.memory.finish(job).status is JobStatus.SUCCEEDED


def test_the_place_of_a_record_is_said_where_it_is_known(tmp_path: Path) -> None:
    story = Story(tmp_path)
    push(story, "one", *["2026-01-01T00:00:00Z"] * 3)
    push(story, "two", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    push(story, "three", "2026-01-02T00:00:00Z")
    answer = story.why(story.readings, 1, 3, 5)
    places: list[Any] = [one["end"]["place"] for one in answer["records"]]
    assert places[0] == {
        "message": "record 2 of the 3 of what was pushed in this block",
        "record": 2,
        "records": 3,
    }
    assert places[1] == {
        "message": "one of the records of what was pushed in this block: the block has them in order of event time"
    }
    assert (places[2]["record"], places[2]["records"]) == (1, 1)
    assert ": record 2 of the 3 of what was pushed in this block" in "\n".join(why_tree(answer))

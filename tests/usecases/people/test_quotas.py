"""Limits of accounts: of the node, and of those for whom an admin has set others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from odfabric.errors import LimitExceeded
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.people.account import AccountLimits
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.people.accounts import set_limits
from odfabric.usecases.rights.account_quotas import measure_usage
from tests.usecases.people.conftest import People

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


def limited(people: People, name: str = "ann", **limits: int) -> None:
    set_limits(name, AccountLimits(**limits), subject=people.operator, ports=people.ports)


def push(people: People, entry: CatalogEntry, by: str = "ann") -> Job:
    job = people.memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])), by=people.subject(by))
    assert isinstance(job, Job)
    return people.memory.finish(job)


def refused(error: LimitExceeded) -> Mapping[str, object]:
    return {"limit": error.limit, "maximum": error.maximum, "waits": error.retry_after_s is not None}


def test_an_account_has_no_more_datasets_than_it_may(people: People) -> None:
    limited(people, datasets_max=1)
    entry = people.add("ann", "one")
    with pytest.raises(LimitExceeded) as error:
        people.add("ann", "two")
    assert refused(error.value) == {"limit": "account_datasets_max", "maximum": 1, "waits": True}
    people.add("bob", "two")
    people.memory.node.datasets.delete(entry)
    people.add("ann", "two")


def test_datasets_and_bytes_count_for_their_owner(people: People) -> None:
    limited(people, "acme", stored_bytes_max=1)
    entry = people.add("acme")
    with pytest.raises(LimitExceeded) as error:
        push(people, entry)
    assert refused(error.value) == {"limit": "account_stored_bytes_max", "maximum": 1, "waits": True}
    assert push(people, people.add("ann")).status is JobStatus.SUCCEEDED


def test_pushes_are_counted_for_whoever_pushes(people: People) -> None:
    limited(people, pushes_per_minute_max=2)
    entry = people.add("acme")
    push(people, entry)
    push(people, entry)
    with pytest.raises(LimitExceeded) as error:
        push(people, entry)
    assert refused(error.value) == {"limit": "account_pushes_per_minute_max", "maximum": 2, "waits": True}
    people.memory.clock.advance(60_000)
    push(people, entry)
    limited(people, pushes_per_minute_max=0)
    with pytest.raises(LimitExceeded):
        push(people, entry)


def test_the_node_s_limit_counts_where_no_other_was_set(people: People) -> None:
    quotas, settings = people.memory.node.quotas, people.memory.settings
    assert quotas.queries_at_once_max(people.subject("ann")) == settings.account_queries_at_once_max
    assert quotas.queries_at_once_max(people.stranger) == settings.account_queries_at_once_max
    limited(people, queries_at_once_max=1)
    assert quotas.queries_at_once_max(people.subject("ann")) == 1


def test_bytes_are_those_of_blocks_and_objects_and_can_be_measured_again(people: People) -> None:
    entry = people.add("ann")
    push(people, entry)
    push(people, entry)
    usage, objects = people.memory.node.ports.usage, people.memory.objects
    known = usage.of_account(people.account("ann").name)
    stored = sum(stat.size for key in objects.keys(f"{entry.id.multibase}/") if (stat := objects.stat(key)) is not None)
    refs = sum(
        len(text)
        for key in objects.keys(f"{entry.id.multibase}/")
        if "/refs/" in key or "/info/" in key
        for text in [objects.read_ref(key) or ""]
    )
    assert known.datasets == 1
    assert known.stored_bytes == stored - refs
    people.memory.store.datasets[entry.id].stored_bytes = None
    assert usage.unmeasured(limit=10) == [entry.id]
    assert measure_usage(usage=usage, repository=people.memory.node.repository, datasets_max=10) == 1
    assert usage.of_account(people.account("ann").name) == known

"""Who sees and changes flows, and with whose rights they run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from odfabric.errors import AccessDenied, NotFound, Unauthenticated
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.flow import Every, FlowKind, FlowRule, RunStatus
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.people.sharing import set_role
from tests.usecases.manifests import POLLED
from tests.usecases.people.conftest import People

HOURLY = FlowRule(trigger=Every(3600))


@pytest.fixture
def polled(people: People) -> CatalogEntry:
    """A dataset of ann's that is polled by a flow of hers."""
    entry = people.memory.add(POLLED.replace("name: polled", "name: ann/polled"))
    people.memory.node.flows.set(entry, FlowKind.POLL, HOURLY, by=people.subject("ann"))
    return entry


def share(people: People, entry: CatalogEntry, role: DatasetRole | None) -> None:
    set_role(entry, "bob", role, subject=people.subject("ann"), ports=people.ports)


def test_others_neither_see_nor_change_flows(people: People, polled: CatalogEntry) -> None:
    flows = people.memory.node.flows
    run = flows.run_now(polled, FlowKind.POLL, by=people.subject("ann"))
    for subject, refusal in ((people.subject("bob"), NotFound), (people.stranger, NotFound)):
        assert flows.all(by=subject) == []
        for act in (flows.of_dataset, lambda entry, by: flows.pause(entry, FlowKind.POLL, by=by)):
            with pytest.raises(refusal):
                act(polled, by=subject)
        with pytest.raises(NotFound):
            flows.cancel(run.id, by=subject)
    share(people, polled, DatasetRole.READER)
    with pytest.raises((AccessDenied, Unauthenticated)):
        flows.of_dataset(polled, by=people.subject("bob"))
    assert flows.all(by=people.subject("bob")) == []
    assert [seen.entry.id for seen in flows.all(by=people.subject("ann"))] == [polled.id]
    assert [seen.entry.id for seen in flows.all(by=people.operator)] == [polled.id]


def test_whoever_may_change_the_dataset_sees_and_changes_its_flows(people: People, polled: CatalogEntry) -> None:
    share(people, polled, DatasetRole.MAINTAINER)
    flows, bob = people.memory.node.flows, people.subject("bob")
    assert [seen.flow.kind for seen in flows.all(by=bob)] == [FlowKind.POLL]
    flows.set(polled, FlowKind.POLL, HOURLY, by=bob)
    (seen,) = flows.of_dataset(polled, by=bob)
    assert seen.flow.owner == str(people.account("bob").id)
    assert "flow.changed" in people.kinds()


def test_a_flow_runs_with_the_rights_of_who_set_it_as_they_are_then(people: People, polled: CatalogEntry) -> None:
    share(people, polled, DatasetRole.MAINTAINER)
    memory, flows = people.memory, people.memory.node.flows
    memory.files.add("arrivals/1.ndjson", b"", modified_at=memory.clock.now())
    flows.set(polled, FlowKind.POLL, replace(HOURLY, failures_max=1), by=people.subject("bob"))
    share(people, polled, None)
    memory.work()
    (seen,) = flows.of_dataset(polled, by=people.subject("ann"))
    assert seen.runs[0].status is RunStatus.FAILED
    assert json.loads(seen.runs[0].error or "")["code"] == "not-found"
    assert seen.flow.stop is not None
    flows.set(polled, FlowKind.POLL, HOURLY, by=people.subject("ann"))
    flows.run_now(polled, FlowKind.POLL, by=people.subject("ann"))
    memory.work()
    assert flows.of_dataset(polled, by=people.subject("ann"))[0].runs[0].status is RunStatus.SUCCEEDED

"""Earlier requests run with present rights: jobs, push groups, deliveries."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from odfabric.domain.people.access import Subject
from odfabric.errors import AccessDenied, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.model.people.account import DatasetRole
from odfabric.model.people.credential import Scope
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.people.accounts import delete_account, set_suspended
from odfabric.usecases.people.sharing import set_role
from odfabric.usecases.people.tokens import IssuedToken, NewToken, authenticate, create_token, revoke_token
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED
from tests.usecases.people.conftest import People

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@dataclass(frozen=True, slots=True)
class Shared:
    """A dataset of ann's on which bob is an editor, by a token of his."""

    people: People
    entry: CatalogEntry
    issued: IssuedToken

    @property
    def bob(self) -> Subject:
        return authenticate(self.issued.text, ports=self.people.ports)

    def role(self, role: DatasetRole | None) -> None:
        set_role(self.entry, "bob", role, subject=self.people.subject("ann"), ports=self.people.ports)

    def head(self) -> object:
        return self.people.memory.node.datasets.head(self.entry)


@pytest.fixture
def shared(people: People) -> Shared:
    wanted = NewToken(name="laptop", scopes=frozenset({Scope.MANAGE}))
    issued = create_token(wanted, subject=people.subject("bob"), ports=people.ports)
    found = Shared(people, people.add("ann"), issued)
    found.role(DatasetRole.EDITOR)
    return found


def push(shared: Shared, *, by: Subject | None = None, key: str | None = None) -> Job:
    request = PushData(dataset=shared.entry.id, body=iter([ROW]), idempotency_key=key)
    job = shared.people.memory.node.requests.push(request, by=by or shared.bob)
    assert isinstance(job, Job)
    return job


def pull(shared: Shared) -> Job:
    request = PullRequest(dataset=shared.entry.id, alias=shared.entry.alias)
    return shared.people.memory.node.requests.pull(request, by=shared.bob)


def verify(shared: Shared) -> Job:
    return shared.people.memory.node.requests.verify(shared.entry, VerifyOptions(), by=shared.bob)


def copy(shared: Shared) -> Job:
    alias = replace(shared.entry.alias, account=shared.people.account("bob").name)
    request = PullRequest(dataset=None, alias=alias, url="https://node.example/a/b")
    return shared.people.memory.node.requests.pull(request, by=shared.bob)


def withdraw(shared: Shared) -> None:
    shared.role(None)


def suspend(shared: Shared) -> None:
    set_suspended("bob", True, subject=shared.people.operator, ports=shared.people.ports)


def revoke(shared: Shared) -> None:
    revoke_token(shared.issued.token.id, subject=shared.people.subject("bob"), ports=shared.people.ports)


def delete(shared: Shared) -> None:
    delete_account("bob", subject=shared.people.operator, ports=shared.people.ports)


ENDS: dict[Callable[[Shared], None], str] = {
    withdraw: "not-found",
    suspend: "account-suspended",
    revoke: "token-revoked",
    delete: "not-found",
}


def code_of(job: Job) -> object:
    assert job.error is not None
    return json.loads(job.error)["code"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("ask", [push, pull, verify])
def test_a_job_whose_asker_has_lost_the_right_is_refused(
    shared: Shared, ask: Callable[[Shared], Job], end: Callable[[Shared], None]
) -> None:
    job, head = ask(shared), shared.head()
    end(shared)
    ended = shared.people.memory.finish(job)
    assert (ended.status, code_of(ended)) == (JobStatus.FAILED, ENDS[end])
    assert shared.head() == head


@pytest.mark.parametrize("end", [suspend, revoke])
def test_no_copy_is_made_for_whoever_has_lost_the_right(shared: Shared, end: Callable[[Shared], None]) -> None:
    job = copy(shared)
    end(shared)
    assert code_of(shared.people.memory.finish(job)) == ENDS[end]


@pytest.mark.parametrize("ask", [push, pull, verify])
def test_a_lesser_role_does_what_it_may(shared: Shared, ask: Callable[[Shared], Job]) -> None:
    job = ask(shared)
    shared.role(DatasetRole.READER)
    ended = shared.people.memory.finish(job)
    if ask is verify:
        assert ended.status is JobStatus.SUCCEEDED
    else:
        assert code_of(ended) == "access-denied"


def test_work_outlives_the_expiry_of_its_token(people: People, shared: Shared) -> None:
    """It was asked for in time; only what is withdrawn stops it."""
    wanted = NewToken(name="hour", scopes=frozenset({Scope.PUSH}), expires_at=people.ports.later(3600))
    subject = authenticate(
        create_token(wanted, subject=people.subject("bob"), ports=people.ports).text, ports=people.ports
    )
    job = push(shared, by=subject)
    people.memory.clock.advance(7_200_000)
    assert people.memory.finish(job).status is JobStatus.SUCCEEDED


def test_in_a_group_only_those_pushes_are_refused_that_may_not(shared: Shared) -> None:
    ann = shared.people.subject("ann")
    before, refused, after = push(shared, by=ann), push(shared), push(shared, by=ann)
    revoke(shared)
    finished = [shared.people.memory.finish(job) for job in (before, refused, after)]
    assert [job.status for job in finished] == [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.SUCCEEDED]
    assert code_of(finished[1]) == "token-revoked"


def test_a_push_that_has_committed_is_told_so_whatever_happened_to_its_token(shared: Shared) -> None:
    job = push(shared, key="once")
    memory = shared.people.memory
    done = memory.finish(job)
    revoke(shared)
    with pytest.raises(NotFound):
        memory.node.jobs.get(job.id, by=shared.people.subject("acme"))
    assert memory.node.jobs.get(job.id, by=shared.people.subject("bob")) == done


def test_a_recursive_pull_stays_within_the_datasets_of_its_token(people: People) -> None:
    source = people.add("bob")
    derived = people.memory.add(DERIVED.replace("name: copied", "name: bob/copied").replace("readings", "bob/readings"))
    wanted = NewToken(name="one", scopes=frozenset({Scope.MANAGE}), datasets=frozenset({derived.id}))
    narrow = authenticate(
        create_token(wanted, subject=people.subject("bob"), ports=people.ports).text, ports=people.ports
    )
    reports: list[str] = []
    request = PullRequest(dataset=derived.id, alias=derived.alias, recursive=True)
    job = people.memory.node.requests.pull(request, by=narrow)
    people.memory.finish(job, listener=lambda told: reports.append(str(told)))
    assert str(derived.alias) in str(reports)
    assert str(source.alias) not in str(reports)


def test_pulls_by_different_tokens_do_not_end_together(shared: Shared) -> None:
    """Else the end of one token would end what was asked for by another."""
    first = pull(shared)
    assert pull(shared).id == first.id
    other = replace(shared.bob, token=None)
    request = PullRequest(dataset=shared.entry.id, alias=shared.entry.alias)
    assert shared.people.memory.node.requests.pull(request, by=other).id != first.id


@pytest.mark.parametrize(
    ("scope", "seen", "cancelled"),
    [
        (Scope.READ, {push, pull, verify}, {verify}),
        (Scope.PUSH, {push}, {push}),
        (Scope.MANAGE, {push, pull, verify}, {push, pull, verify}),
    ],
)
def test_a_narrow_token_neither_sees_nor_cancels_what_it_could_not_ask_for(
    shared: Shared, scope: Scope, seen: set[object], cancelled: set[object]
) -> None:
    node, narrow = shared.people.memory.node, replace(shared.bob, scopes=frozenset({scope}))
    for ask in (push, pull, verify):
        job = ask(shared)
        if ask not in seen:
            with pytest.raises(NotFound):
                node.jobs.get(job.id, by=narrow)
            with pytest.raises(NotFound):
                node.jobs.cancel(job.id, by=narrow)
            continue
        assert node.jobs.get(job.id, by=narrow) == job
        if ask in cancelled:
            assert node.jobs.cancel(job.id, by=narrow).status is JobStatus.CANCELLED
        else:
            with pytest.raises(AccessDenied):
                node.jobs.cancel(job.id, by=narrow)
            assert node.jobs.get(job.id, by=narrow) == job


def test_editors_see_and_cancel_the_work_of_others_on_their_dataset(shared: Shared) -> None:
    node = shared.people.memory.node
    job = node.requests.verify(shared.entry, VerifyOptions(), by=shared.people.subject("ann"))
    assert node.jobs.cancel(job.id, by=shared.bob).status is JobStatus.CANCELLED
    shared.role(DatasetRole.CONTRIBUTOR)
    with pytest.raises(NotFound):
        node.jobs.get(job.id, by=shared.bob)


@pytest.mark.parametrize("end", [withdraw, suspend, delete])
def test_nothing_is_delivered_for_whoever_has_lost_the_right(shared: Shared, end: Callable[[Shared], None]) -> None:
    node, memory = shared.people.memory.node, shared.people.memory
    node.webhooks.subscribe(shared.entry, by=shared.bob, url="https://receiver.example/hook", secret=None)
    memory.finish(push(shared, by=shared.people.subject("ann")))
    node.background.relay_outbox()
    end(shared)
    for delivery in node.background.due_deliveries("test", limit=10):
        node.background.deliver(delivery)
    assert memory.webhooks.received == []
    assert node.webhooks.seen(shared.entry, by=shared.people.subject("ann")) == []


def test_a_push_elsewhere_is_seen_by_those_who_may_change_its_dataset(shared: Shared) -> None:
    node, ann = shared.people.memory.node, shared.people.subject("ann")
    job = node.sharing.push(shared.entry, SendWish(to="file:///shelf/x/"), by=ann)
    assert (job.dataset_id, job.about) == (None, shared.entry.id)
    assert node.jobs.get(job.id, by=shared.bob).id == job.id
    assert [each.id for each in node.browsing.transfers_seen(shared.entry, limit=9, by=shared.bob)] == [job.id]
    limited = replace(ann, datasets=frozenset({shared.entry.id}))
    assert node.jobs.get(job.id, by=limited).id == job.id
    shared.role(DatasetRole.READER)
    assert node.browsing.transfers_seen(shared.entry, limit=9, by=shared.bob) == []
    for by in (shared.bob, replace(ann, datasets=frozenset())):
        with pytest.raises(NotFound):
            node.jobs.get(job.id, by=by)

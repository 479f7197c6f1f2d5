"""Pull a dataset by its polling source, its transform, or the remote it copies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject, owner_of
from odfabric.domain.transform.transform_plan import transform_inputs
from odfabric.errors import Corrupt, InvalidRequest, NotFound
from odfabric.formats.jobs.pull_request import pull_members, read_pull_request, write_pull_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import DatasetKind
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.polling.poll_source import Polled
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import AccountQuotas


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """A dataset that is, or becomes, a copy of the one at `url`.

    With `force` also if it loses history of its own.
    """

    alias: DatasetAlias
    url: str
    force: bool = False


Poll = Callable[[CatalogEntry, JobRun, PullRequest], Polled]
Transform = Callable[[CatalogEntry, JobRun, PullRequest], CommitResult | None]
Sync = Callable[[RemoteCopy, JobRun], CommitResult | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullVerbs:
    """The three ways of bringing a dataset up to date, bound to their ports."""

    poll: Poll
    transform: Transform
    sync: Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRights:
    """What a pull may touch: the rights of whoever asked for it."""

    subject: Subject
    access: Access
    quotas: AccountQuotas

    def check_pull(self, entry: CatalogEntry) -> None:
        """Raises NotFound or AccessDenied unless the asker may change the dataset.

        Raises LimitExceeded if its owner's space is used up.
        """
        self.access.require(self.subject, Action.WRITE, entry)
        self.quotas.check_more_bytes(owner_of(entry.alias))

    def may_pull(self, entry: CatalogEntry) -> bool:
        """Whether the asker may change the dataset."""
        return self.access.allows(self.subject, Action.WRITE, entry)

    def check_copy(self, alias: DatasetAlias, entry: CatalogEntry | None, *, force: bool = False) -> None:
        """The same for a dataset that is, or becomes, a copy."""
        if entry is not None:
            self.check_pull(entry)
            if force:
                self.access.require(self.subject, Action.REWRITE, entry)
        else:
            self.access.require_here(self.subject, Action.CREATE, under=owner_of(alias), shown=str(alias))
            self.quotas.check_new_dataset(owner_of(alias))
            self.quotas.check_more_bytes(owner_of(alias))

    def check_inputs(self, entry: CatalogEntry, inputs: Iterable[DatasetId]) -> None:
        """Raises NotFound for an input that the derivative's owner may not read.

        It is treated as if it were not there.
        """
        seen = self.access.seen_by(self.access.as_owner(entry))
        for dataset in inputs:
            if seen.by_id(dataset) is None:
                raise NotFound(
                    "dataset", str(dataset), hint=f"{entry.alias} is derived from it, and its owner may not read it"
                )


def enqueue_pull(request: PullRequest, *, subject: Subject, jobs: Jobs, clock: Clock, entropy: Entropy) -> Job:
    """Queue the pull, or join an equal unfinished one.

    Of the same dataset, asked for by the same token with the same wishes.
    """
    account = account_of(subject)
    asked = json.dumps([account, subject.token, pull_members(request)], sort_keys=True)
    job = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.PULL,
        account=account,
        dataset_id=request.dataset,
        request=write_pull_request(request, envelope_of(subject)),
        dedup_key=f"pull/{hashlib.sha256(asked.encode()).hexdigest()}",
    )
    return jobs.enqueue(job, now=clock.now())


def is_pull_of_node(job: Job) -> bool:
    """Whether it is a pull that was asked of a node, not at the command line.

    A damaged one is nobody's: any process may find that out.
    """
    try:
        return job.kind is JobKind.PULL and read_pull_request(job).folder_of_user is None
    except Corrupt:
        return False


def run_pull(
    job: Job, run: JobRun, *, rights: PullRights, repository: Repository, verbs: PullVerbs
) -> dict[str, object]:
    """Run a queued pull; the result of the dataset itself.

    `upToDate` if nothing was committed; `poll` says what a source answered.

    `rights` are those of whoever asked for it, as they are now: every dataset that is brought up to date may be changed by them, and
    what a derivative dataset reads may be read by its owner. Raises NotFound, AccessDenied.
    """
    request = read_pull_request(job)
    alias = DatasetAlias(request.alias.account or repository.account, request.alias.name)
    if request.url is not None:
        rights.check_copy(alias, repository.find(alias), force=request.force)
        result = verbs.sync(RemoteCopy(alias, request.url, request.force), run)
        return _answer(repository.resolve(alias), Polled(result, None), repository)
    entry = repository.resolve(request.dataset or alias)
    rights.check_pull(entry)
    if request.force:
        rights.check_copy(alias, entry, force=True)
    return _answer(entry, _pull(entry, request, run, rights=rights, repository=repository, verbs=verbs), repository)


def _pull(
    entry: CatalogEntry,
    request: PullRequest,
    run: JobRun,
    *,
    rights: PullRights,
    repository: Repository,
    verbs: PullVerbs,
) -> Polled:
    for step in _order(entry, repository) if request.recursive else [entry]:
        if step.id != entry.id and not rights.may_pull(step):
            continue  # an input of others is read as it is
        run.report(EngineProgress(stage=f"pull {step.alias}", done=0, total=0))
        if step.kind is DatasetKind.DERIVATIVE and step.remote_url is None:
            rights.check_inputs(step, _inputs(step, repository))
            if request.recompute:
                rights.access.require(rights.subject, Action.REWRITE, step)
        result = _pull_one(step, request, run, verbs)
    return result


def _inputs(entry: CatalogEntry, repository: Repository) -> tuple[DatasetId, ...]:
    _, state = repository.current(entry.id)
    return transform_inputs(state) if state.transform is not None else ()


def _pull_one(entry: CatalogEntry, request: PullRequest, run: JobRun, verbs: PullVerbs) -> Polled:
    if entry.remote_url is not None:
        return Polled(verbs.sync(RemoteCopy(entry.alias, entry.remote_url, request.force), run), None)
    if entry.kind is DatasetKind.DERIVATIVE:
        return Polled(verbs.transform(entry, run, request), None)
    return verbs.poll(entry, run, request)


def _order(entry: CatalogEntry, repository: Repository) -> list[CatalogEntry]:
    """The dataset after all that it is derived from, inputs first.

    Raises InvalidRequest if it is derived from itself: of two transforms set at the same moment neither looks at the other.
    """
    ordered: dict[DatasetId, CatalogEntry] = {}
    begun: set[DatasetId] = set()

    def visit(found: CatalogEntry) -> None:
        if found.id in ordered:
            return
        if found.id in begun:
            raise InvalidRequest(f"{found.alias} is derived from itself", hint="set a transform with other inputs")
        begun.add(found.id)
        if found.kind is DatasetKind.DERIVATIVE and found.remote_url is None:
            for dataset in _inputs(found, repository):
                visit(repository.resolve(dataset))
        ordered[found.id] = found

    visit(entry)
    return list(ordered.values())


def _answer(entry: CatalogEntry, pulled: Polled, repository: Repository) -> dict[str, object]:
    answer = (pulled.result or CommitResult(head=repository.head(entry.id).hash)).to_value()
    polled = {} if pulled.report is None else {"poll": pulled.report.to_value()}
    return {"id": str(entry.id), "alias": str(entry.alias), **answer, "upToDate": pulled.result is None, **polled}

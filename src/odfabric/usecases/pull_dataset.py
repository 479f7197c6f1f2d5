"""Pull a dataset: whatever brings it up to date - its polling source, its transform, or the copy it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.transform_plan import transform_inputs
from odfabric.errors import InvalidRequest
from odfabric.formats.did import parse_dataset_id
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.job import Job, JobKind, NewJob
from odfabric.model.metadata import DatasetKind
from odfabric.ports.clock import Clock, Entropy
from odfabric.ports.jobs import Jobs
from odfabric.usecases.commit_result import CommitResult
from odfabric.usecases.job_run import JobRun
from odfabric.usecases.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """What a pull job was asked for. With `url` the dataset is (or becomes) a copy of the remote one, named `alias`.

    `recursive` brings the inputs up to date first; `fetch_uncacheable` polls a source that cannot tell what is new.
    `folder_of_user` is set by the command line on a workspace alone: the person's own files may be read, from this folder on.
    """

    dataset: DatasetId | None
    alias: DatasetAlias
    url: str | None = None
    recursive: bool = False
    fetch_uncacheable: bool = False
    folder_of_user: Path | None = None


Poll = Callable[[CatalogEntry, JobRun, "PullRequest"], CommitResult | None]
Transform = Callable[[CatalogEntry, JobRun], CommitResult | None]
Sync = Callable[[PullRequest, JobRun], CommitResult | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullVerbs:
    """The three ways of bringing a dataset up to date, bound to their ports."""

    poll: Poll
    transform: Transform
    sync: Sync


def enqueue_pull(request: PullRequest, *, account: str, jobs: Jobs, clock: Clock, entropy: Entropy) -> Job:
    """Queue the pull; an unfinished pull of the same dataset with the same wishes is that job."""
    wishes = json.dumps(
        {
            "dataset": str(request.dataset) if request.dataset else None,
            "account": str(request.alias.account),
            "name": str(request.alias.name),
            "url": request.url,
            "recursive": request.recursive,
            "fetchUncacheable": request.fetch_uncacheable,
            "folderOfUser": str(request.folder_of_user) if request.folder_of_user else None,
        },
        sort_keys=True,
    )
    job = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.PULL,
        account=account,
        dataset_id=request.dataset,
        request=wishes,
        dedup_key=f"pull/{wishes}",
    )
    return jobs.enqueue(job, now=clock.now())


def run_pull(job: Job, run: JobRun, *, repository: Repository, verbs: PullVerbs) -> dict[str, object]:
    """Run a queued pull; the result of the dataset itself, with `upToDate` if nothing was new."""
    wishes = json.loads(job.request)
    alias = repository.local_alias(wishes["account"], wishes["name"])
    request = PullRequest(
        dataset=parse_dataset_id(wishes["dataset"]) if wishes["dataset"] else None,
        alias=alias,
        url=wishes["url"],
        recursive=wishes["recursive"],
        fetch_uncacheable=wishes["fetchUncacheable"],
        folder_of_user=Path(wishes["folderOfUser"]) if wishes["folderOfUser"] else None,
    )
    if request.url is not None:
        result = verbs.sync(request, run)
        return _answer(repository.resolve(alias), result, repository)
    entry = repository.resolve(request.dataset or alias)
    return _answer(entry, _pull(entry, request, run, repository=repository, verbs=verbs), repository)


def _pull(
    entry: CatalogEntry, request: PullRequest, run: JobRun, *, repository: Repository, verbs: PullVerbs
) -> CommitResult | None:
    for step in _order(entry, repository) if request.recursive else [entry]:
        run.report(EngineProgress(stage=f"pull {step.alias}", done=0, total=0))
        result = _pull_one(step, request, run, verbs)
    return result


def _pull_one(entry: CatalogEntry, request: PullRequest, run: JobRun, verbs: PullVerbs) -> CommitResult | None:
    if entry.remote_url is not None:
        wish = PullRequest(dataset=entry.id, alias=entry.alias, url=entry.remote_url)
        return verbs.sync(wish, run)
    if entry.kind is DatasetKind.DERIVATIVE:
        return verbs.transform(entry, run)
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
            _, state = repository.current(found.id)
            if state.transform is not None:
                for dataset in transform_inputs(state):
                    visit(repository.resolve(dataset))
        ordered[found.id] = found

    visit(entry)
    return list(ordered.values())


def _answer(entry: CatalogEntry, result: CommitResult | None, repository: Repository) -> dict[str, object]:
    answer = (result or CommitResult(head=repository.head(entry.id).hash)).to_value()
    return {"id": str(entry.id), "alias": str(entry.alias), **answer, "upToDate": result is None}

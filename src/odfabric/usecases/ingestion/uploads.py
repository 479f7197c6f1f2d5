"""Uploaded files without a dataset yet: judged, tried, and finally pushed.

Owns their objects and the jobs that work on them. An upload is known by the job that judges it. Invariants: only the account that has uploaded a
file may use it; it may be used for half of the lifetime of staged objects, so that the collector never takes one that a job is about to name.
Not here: what the jobs do (`judge_file`, `try_push`), pushing (`push_data`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.files.file_shape_value import shape_of
from odfabric.formats.jobs.judge_request import read_judge_request, write_judge_request
from odfabric.formats.jobs.try_request import read_try_request
from odfabric.model.file_shape import FileShape
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.model.jobs.job import Job, JobKind, JobStatus, NewJob
from odfabric.model.jobs.requests import FileToFetch, JudgeRequest, ReceivedFile, TryRequest
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.ingestion.staging import (
    STAGING_PREFIX,
    UNFINISHED_JOBS_MAX,
    StagedBody,
    named_objects,
    stage_body,
)
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.rights.account_quotas import AccountQuotas

USABLE_SHARE = 0.5
"""Part of the lifetime of staged objects in which a file may be used."""
FILE_NAME_CHARACTERS_MAX = 200
URL_CHARACTERS_MAX = 2000
_ACCOUNT_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPorts:
    """What uploads work with.

    `part` keeps those of this node apart; of an account the last `per_account_max` files are kept.
    """

    objects: ObjectStore
    jobs: Jobs
    clock: Clock
    entropy: Entropy
    quotas: AccountQuotas
    lifetime_s: float
    per_account_max: int
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A judged file: its object, size, SHA3-256, owner's name for it, and format.

    `url` is where it was fetched, None if it was uploaded. `found` is what judging has found (`judge_file`).
    """

    job_id: str
    key: str
    size: int
    digest: bytes
    file_name: str
    shape: FileShape
    url: str | None
    found: Mapping[str, Any]

    @property
    def staged(self) -> StagedBody:
        """As pushes take it."""
        return StagedBody(self.size, self.digest, key=self.key)


def upload_file(chunks: Iterator[bytes], *, file_name: str, subject: Subject, ports: UploadPorts) -> Job:
    """Take a file in as it arrives; the job that judges it.

    Raises LimitExceeded before it is read, InvalidRequest for an empty one.
    """
    staged = stage_upload(chunks, subject=subject, ports=ports)
    file = ReceivedFile(size=staged.size, digest=staged.digest)
    request = JudgeRequest(upload=str(staged.key), file_name=shown_name(file_name), file=file)
    return _enqueue(request, subject, ports)


def upload_url(url: str, *, subject: Subject, ports: UploadPorts) -> Job:
    """The job that fetches a file and judges it.

    Raises LimitExceeded, InvalidRequest for what is no address of a file.
    """
    if (
        not url.startswith(("http://", "https://"))
        or len(url) > URL_CHARACTERS_MAX
        or not url.isprintable()
        or " " in url
    ):
        raise InvalidRequest("not an address of a file", place=Place(field="url"), hint="write https://...")
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    request = JudgeRequest(upload=_new_key(subject, ports), file_name=shown_name(name), file=FileToFetch(url=url))
    return _enqueue(request, subject, ports)


def judge_again(job: Job, shape: FileShape, *, subject: Subject, ports: UploadPorts) -> Job:
    """The job that judges the file of another one as if it were written in `shape`.

    Raises NotFound.
    """
    request = _judged_request(job, subject)
    file = request.file
    if isinstance(file, FileToFetch) and job.result is not None:
        found = json.loads(job.result)
        file = ReceivedFile(size=found["size"], digest=bytes.fromhex(found["digest"]), url=file.url)
    if isinstance(file, ReceivedFile):
        _check_usable(request.upload, ports)
    return _enqueue(replace(request, file=file, shape=shape), subject, ports)


def judged_upload(job: Job, *, subject: Subject, ports: UploadPorts) -> Upload:
    """What a job has judged.

    Raises NotFound for a job of somebody else, one that has not succeeded, and a file that is gone.
    """
    request = _judged_request(job, subject)
    if job.status is not JobStatus.SUCCEEDED or job.result is None:
        raise _gone()
    _check_usable(request.upload, ports)
    found = json.loads(job.result)
    return Upload(
        job_id=job.id,
        key=request.upload,
        size=found["size"],
        digest=bytes.fromhex(found["digest"]),
        file_name=request.file_name,
        shape=shape_of(found["shape"]),
        url=request.file.url,
        found=found,
    )


def tried_upload(job: Job, *, subject: Subject, ports: UploadPorts) -> tuple[StagedBody, TryRequest]:
    """The file of a trial, and the request of its job.

    Raises NotFound for a job of somebody else, and a file that is gone.
    """
    _check_own(job, subject, JobKind.TRY)
    request = read_try_request(job)
    _check_usable(request.upload, ports)
    return StagedBody(request.size, request.digest, key=request.upload), request


def stage_upload(chunks: Iterator[bytes], *, subject: Subject, ports: UploadPorts) -> StagedBody:
    """Take a file in as it arrives.

    Raises LimitExceeded before it is read, InvalidRequest for an empty one.
    """
    key = _new_key(subject, ports)
    staged = stage_body(chunks, objects=ports.objects, entropy=ports.entropy, inline_bytes_max=0, key=key)
    if not staged.size:
        raise InvalidRequest("the file is empty", place=Place(field="file"), hint="choose a file that has rows")
    return staged


def discard_upload(job: Job, *, subject: Subject, ports: UploadPorts) -> None:
    """Remove the file at once. Raises NotFound for a job of somebody else."""
    ports.objects.delete(_judged_request(job, subject).upload)


def shown_name(name: str) -> str:
    """What a file is called, without folders and what cannot be printed."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(sign for sign in last if sign.isprintable())[:FILE_NAME_CHARACTERS_MAX] or "file"


def _new_key(subject: Subject, ports: UploadPorts) -> str:
    """Raises LimitExceeded if the account has too many files or pushed too often."""
    account = account_of(subject)
    ports.quotas.take_push(subject)
    if subject.account is not None:
        ports.quotas.check_more_bytes(subject.account.name)
    owner = hashlib.sha3_256(account.encode()).hexdigest()[:_ACCOUNT_DIGITS]
    prefix = f"{STAGING_PREFIX}{ports.part}upload-{owner}-"
    _make_room(list(ports.objects.keys(prefix)), ports)
    return prefix + ports.entropy.random_bytes(16).hex()


def _make_room(keys: Sequence[str], ports: UploadPorts) -> None:
    """Remove the oldest files of an account that has as many as it may.

    Raises LimitExceeded if jobs need all of them.
    """
    surplus = len(keys) + 1 - ports.per_account_max
    if surplus <= 0:
        return
    needed = named_objects(ports.jobs.page(unfinished_only=True, limit=UNFINISHED_JOBS_MAX))
    stats = ((ports.objects.stat(key), key) for key in keys if key not in needed)
    oldest_first = sorted((stat.modified_at, key) for stat, key in stats if stat is not None)
    if len(oldest_first) < surplus:
        raise LimitExceeded(
            f"jobs work on all of your last {ports.per_account_max} files; wait for one to end, or cancel it",
            limit="uploads_per_account_max",
            maximum=ports.per_account_max,
        )
    for _, key in oldest_first[:surplus]:
        ports.objects.delete(key)


def _enqueue(request: JudgeRequest, subject: Subject, ports: UploadPorts) -> Job:
    new = NewJob(
        id=ports.entropy.random_bytes(16).hex(),
        kind=JobKind.JUDGE,
        account=account_of(subject),
        dataset_id=None,
        request=write_judge_request(request, envelope_of(subject)),
    )
    return ports.jobs.enqueue(new, now=ports.clock.now())


def _judged_request(job: Job, subject: Subject) -> JudgeRequest:
    _check_own(job, subject, JobKind.JUDGE)
    return read_judge_request(job)


def _check_own(job: Job, subject: Subject, kind: JobKind) -> None:
    if job.kind is not kind or job.account != account_of(subject):
        raise _gone()


def _check_usable(key: str, ports: UploadPorts) -> None:
    stat = ports.objects.stat(key)
    usable_ns = int(ports.lifetime_s * USABLE_SHARE * NANOS_PER_SECOND)
    if stat is None or stat.modified_at.epoch_ns + usable_ns < ports.clock.now().epoch_ns:
        raise _gone()


def _gone() -> NotFound:
    return NotFound("file", "the upload", hint="it was pushed, discarded or too old: choose the file again")

"""The request of a pull job as its row keeps it."""

from __future__ import annotations

import json
from pathlib import Path

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.references import parse_name
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, PullRequest


def write_pull_request(request: PullRequest, envelope: Envelope) -> str:
    """The text of a request."""
    return json.dumps({**pull_members(request), **envelope_members(envelope)}, sort_keys=True)


def pull_members(request: PullRequest) -> dict[str, object]:
    """The wishes alone, without who asks: requests with the same wishes are one job."""
    account = request.alias.account
    members: dict[str, object] = {
        "dataset": str(request.dataset) if request.dataset is not None else None,
        "account": str(account) if account is not None else None,
        "name": str(request.alias.name),
        "url": request.url,
        "recursive": request.recursive,
        "fetchUncacheable": request.fetch_uncacheable,
        "allowShrink": request.allow_shrink,
        "fetchAgain": request.fetch_again,
        "folderOfUser": str(request.folder_of_user) if request.folder_of_user is not None else None,
    }
    if request.force:
        members["force"] = True
    if request.recompute:
        members["recompute"] = True
    return members


def read_pull_request(job: Job) -> PullRequest:
    """The request of a pull job, also of releases that knew fewer wishes.

    Raises Corrupt.
    """
    members = RequestMembers.of(job)
    alias = DatasetAlias(members.parsed_or_none("account", _account_name), members.parsed("name", parse_name))
    return PullRequest(
        dataset=members.parsed_or_none("dataset", parse_dataset_id),
        alias=alias,
        url=members.text_or_none("url"),
        recursive=members.flag("recursive"),
        fetch_uncacheable=members.flag("fetchUncacheable"),
        allow_shrink=members.flag_or_false("allowShrink"),
        fetch_again=members.flag_or_false("fetchAgain"),
        force=members.flag_or_false("force"),
        recompute=members.flag_or_false("recompute"),
        folder_of_user=members.parsed_or_none("folderOfUser", Path),
    )


def _account_name(text: str) -> Name:
    return parse_name(text, type_name="AccountName")

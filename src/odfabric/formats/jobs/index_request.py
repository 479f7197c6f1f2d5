"""The request of an indexing job as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import IndexRequest


def write_index_request(request: IndexRequest) -> str:
    """The text of a request; the node itself asks for it."""
    return json.dumps({"dataset": str(request.dataset)})


def read_index_request(job: Job) -> IndexRequest:
    """The request of an indexing job. Raises Corrupt."""
    return IndexRequest(RequestMembers.of(job).parsed("dataset", parse_dataset_id))

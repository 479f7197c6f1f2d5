"""Routes of signed verification reports beside a dataset: who vouches for it."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from odfabric.formats.operations.verification_report import REPORT_BYTES_MAX
from odfabric_api.auth import Caller, FollowableDataset, ReadableDataset, WritableDataset, node_of
from odfabric_api.bodies.history_schemas import ReportList, ReportView
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import read_body
from odfabric_api.bodies.schemas import answers
from odfabric_api.contract import check_media_type

router = APIRouter(tags=["verification"])

ReportId = Annotated[str, Path(description="As the list of reports says it", max_length=100)]

_REPORT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A signed report, as `odf verify --report FILE` writes it",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.get(
    "/{account}/{dataset}/reports",
    summary="Who vouches for a dataset",
    responses=answers(ReportList, text="Reports, newest first"),
)
def get_reports(request: Request, entry: ReadableDataset) -> Response:
    """Signatures were checked; whether a signer is to be believed is for the reader."""
    found = node_of(request).reports.of_dataset(entry)
    return JsonAnswer({"reports": [one.to_value() for one in found]})


@router.post(
    "/{account}/{dataset}/reports",
    status_code=201,
    summary="Publish a verification report",
    responses=answers(ReportView, status=201, text="The report"),
    openapi_extra=_REPORT_BODY,
)
async def post_report(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """It takes the place of the signer's older report.

    A dataset keeps those of `reports_per_dataset_max` signers.
    """
    check_media_type(request, ("application/json",))
    data = await read_body(request, bytes_max=REPORT_BYTES_MAX, limit="report_bytes_max")
    published = await to_thread.run_sync(lambda: node_of(request).reports.publish(entry, data, by=caller))
    return JsonAnswer(published.to_value(), status_code=201)


@router.delete(
    "/{account}/{dataset}/reports/{report_id}",
    status_code=204,
    summary="Take a verification report away",
    responses=answers(None, status=204),
)
def delete_report(request: Request, entry: WritableDataset, caller: Caller, report_id: ReportId) -> Response:
    """For those who may change the dataset."""
    node_of(request).reports.remove(entry, report_id, by=caller)
    return Response(status_code=204)

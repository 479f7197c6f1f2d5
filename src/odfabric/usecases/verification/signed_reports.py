"""Signed verification reports: made by a verification, published beside a dataset.

Invariants: a report that is kept has a right signature, is about this dataset, and is small; each signer has one report on a dataset, the
newest. A report says what its signer found and proves nothing more: a reader who trusts the signer need not verify again. Source: ADR 0075.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odfabric.domain.people.access import Action, Subject, signed_in
from odfabric.errors import Corrupt, InvalidData, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.identifiers.dataset_layout import reports_prefix
from odfabric.formats.operations.verification_report import (
    REPORT_BYTES_MAX,
    SignedReport,
    read_signed_report,
)
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access
from odfabric.usecases.verification.verification_run import VerificationReport, VerifyOptions

SignReport = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From the members of a report to its signed document."""

PUBLISHED_BYTES_MAX = REPORT_BYTES_MAX + 4096
PROBLEMS_TOLD_MAX = 20
"""Problems that a report lists; it says how many there are."""


def report_members(entry: CatalogEntry, options: VerifyOptions, found: VerificationReport) -> dict[str, Any]:
    """What a report says of a verification.

    `signed` is `{signer, entries, engineRecords}`, None for a dataset that nobody signs.
    """
    engine = found.engine
    return {
        "dataset": str(entry.id),
        "checkedAfter": None if options.after is None else str(options.after),
        "checkedTo": str(found.head),
        "mode": _mode(options),
        "blocks": found.counts.blocks,
        "objects": found.counts.objects,
        "transactions": found.counts.transactions,
        "engine": None if engine is None else {"name": engine.name, "version": engine.version, "digest": engine.digest},
        "signed": None if found.heads is None else found.heads.to_value(),
        "startedAt": str(found.started_at.truncated_to_millis()),
        "endedAt": str(found.ended_at.truncated_to_millis()),
        "ok": not found.problems,
        "problems": len(found.problems),
        "errors": [
            {
                "kind": one.kind.value,
                "block": None if one.block is None else str(one.block),
                "object": None if one.object is None else str(one.object),
            }
            for one in found.problems[:PROBLEMS_TOLD_MAX]
        ],
        "skipped": list(found.skipped[:PROBLEMS_TOLD_MAX]),
    }


def _mode(options: VerifyOptions) -> str:
    """`recompute`: everything; `data`: chain and objects; `metadata`: the chain."""
    if not options.data:
        return "recompute-only" if options.replay else "metadata"
    return "recompute" if options.replay else "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedReport:
    """A report beside a dataset; `published_by` is the account that brought it.

    `document` is the text as it was signed. `in_chain`: the block up to which it was checked is in the present chain.
    """

    id: str
    report: SignedReport
    document: str
    published_by: str
    published_at: Instant
    in_chain: bool

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        members = self.report.members
        return {
            "id": self.id,
            "signer": self.report.signer,
            "publishedBy": self.published_by,
            "publishedAt": str(self.published_at),
            "ok": self.report.ok,
            "mode": str(members.get("mode")),
            "block": str(self.report.block),
            "inChain": self.in_chain,
            "at": str(self.report.at),
            "document": self.document,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPorts:
    """What reports are kept with; `reports_max` is how many a dataset has."""

    access: Access
    repository: Repository
    objects: ObjectStore
    clock: Clock
    reports_max: int


def publish_report(entry: CatalogEntry, data: bytes, *, subject: Subject, ports: ReportPorts) -> PublishedReport:
    """Keep a report beside the dataset, in the place of the signer's older one.

    Raises AccessDenied, InvalidData for a wrong signature, InvalidRequest for another dataset or a block that is not in the chain,
    LimitExceeded if too many others have reports here.
    """
    ports.access.require(subject, Action.FOLLOW, entry)
    report = read_signed_report(data)
    if report.dataset != entry.id:
        raise InvalidRequest(
            f"the report is about {report.dataset}, {entry.alias} is {entry.id}",
            place=Place(field="report.dataset"),
            hint="publish it beside the dataset that it is about, or verify this one",
        )
    if not ports.repository.chains.contains(entry.id, report.block):
        raise InvalidRequest(
            f"block {report.block} is not in the chain of {entry.alias}",
            place=Place(field="report.checkedTo"),
            hint="verify the dataset as it is here",
        )
    number = hashlib.sha3_256(data).hexdigest()
    there = list(_stored(entry, ports))
    others = [key for key, one in there if one.report.signer != report.signer]
    if len(others) >= ports.reports_max:
        raise LimitExceeded(
            f"{entry.alias} has {len(others)} reports of others",
            limit="reports_per_dataset_max",
            maximum=ports.reports_max,
        )
    envelope = {
        "publishedBy": str(signed_in(subject).name),
        "publishedAt": str(ports.clock.now().truncated_to_millis()),
        "document": data.decode(),
    }
    key = f"{reports_prefix(entry.id)}{number}"
    ports.objects.put_bytes(key, json.dumps(envelope, sort_keys=True).encode())
    for older, one in there:
        if one.report.signer == report.signer and older != key:
            ports.objects.delete(older)
    return get_report(entry, number, ports=ports)


def published_reports(entry: CatalogEntry, *, ports: ReportPorts) -> Sequence[PublishedReport]:
    """The reports beside a dataset, newest first."""
    return sorted((one for _, one in _stored(entry, ports)), key=lambda one: one.report.at, reverse=True)


def get_report(entry: CatalogEntry, number: str, *, ports: ReportPorts) -> PublishedReport:
    """One report by its id. Raises NotFound."""
    for _, one in _stored(entry, ports):
        if one.id == number:
            return one
    raise NotFound("report", number)


def remove_report(entry: CatalogEntry, number: str, *, subject: Subject, ports: ReportPorts) -> None:
    """Take a report away. Raises AccessDenied, NotFound."""
    ports.access.require(subject, Action.WRITE, entry)
    get_report(entry, number, ports=ports)
    ports.objects.delete(f"{reports_prefix(entry.id)}{number}")


def _stored(entry: CatalogEntry, ports: ReportPorts) -> Iterator[tuple[str, PublishedReport]]:
    prefix = reports_prefix(entry.id)
    for place, key in enumerate(ports.objects.keys(prefix)):
        if place > ports.reports_max * 2:
            return
        try:
            yield key, _read(entry, key.removeprefix(prefix), key, ports)
        except (InvalidData, Corrupt, NotFound):
            continue  # removed meanwhile, or no report: the bucket may have other writers


def _read(entry: CatalogEntry, number: str, key: str, ports: ReportPorts) -> PublishedReport:
    try:
        value = json.loads(ports.objects.read_bytes(key, size_max=PUBLISHED_BYTES_MAX * 2))
        data = str(value["document"]).encode()
        by, at = str(value["publishedBy"]), Instant.parse(str(value["publishedAt"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Corrupt("a report cannot be read", object_name=key) from None
    report = read_signed_report(data)
    if report.dataset != entry.id:
        raise Corrupt("a report is about another dataset", object_name=key)
    return PublishedReport(
        id=number,
        report=report,
        document=data.decode(),
        published_by=by,
        published_at=at,
        in_chain=ports.repository.chains.contains(entry.id, report.block),
    )

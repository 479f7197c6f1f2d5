"""A verification report: what was checked of a dataset, signed by who has checked.

A JSON object with `report` and `proof`. The signature is Ed25519 over the canonical JSON of `report`, the signer a `did:key`, so a report is
checked without a network and without the dataset. Invariant: what is read was signed as it is; a report with another member, or one
member less, has another signature. Not here: whose key it is (a reader knows their peers), whether the claims are true (only a
verification finds out). Source: ADR 0075.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from odfabric.errors import InvalidData, InvalidName, Place
from odfabric.formats.identifiers.did import did_key, parse_dataset_id, parse_did_key
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.json_values.canonical_json import canonical_json, check_json_value, parse_json_object
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash

KIND: Final = "odfabric.dev/verification-report"
VERSION: Final = 1
PROOF_TYPE: Final = "Ed25519Signature2020"
REPORT_BYTES_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 8

_PROOF_MEMBERS = frozenset({"type", "verificationMethod", "proofValue"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedReport:
    """A report whose signature is right: its members, and the key that signed it."""

    members: Mapping[str, Any]
    signer: str
    dataset: DatasetId
    block: Multihash
    at: Instant
    ok: bool


def signed_report(members: Mapping[str, Any], *, private: bytes) -> dict[str, Any]:
    """The document: `members` with kind and version, and the proof."""
    report = {"kind": KIND, "version": VERSION, **members}
    key = Ed25519PrivateKey.from_private_bytes(private)
    value = base64.urlsafe_b64encode(key.sign(canonical_json(report).encode())).rstrip(b"=").decode()
    proof = {
        "type": PROOF_TYPE,
        "verificationMethod": did_key(key.public_key().public_bytes_raw()),
        "proofValue": f"u{value}",
    }
    return {"proof": proof, "report": report}


def report_text(document: Mapping[str, Any]) -> str:
    """The text of a file: canonical JSON and a newline."""
    return canonical_json(dict(document)) + "\n"


def read_signed_report(data: bytes, *, file: str | None = None) -> SignedReport:
    """A report whose signature was checked.

    Raises InvalidData naming the member that is wrong, or the rule `signature`.
    """

    def refuse(
        message: str, *, field: str | None = None, rule: str | None = None, hint: str | None = None
    ) -> InvalidData:
        return InvalidData(message, place=Place(file=file, field=field, rule=rule), hint=hint)

    if len(data) > REPORT_BYTES_MAX:
        raise refuse(f"a verification report has at most {REPORT_BYTES_MAX} bytes, this has {len(data)}", rule="size")
    try:
        document = parse_json_object(data.decode().strip())
        check_json_value(document, depth_max=DEPTH_MAX)
    except ValueError as error:
        raise refuse(f"it is no verification report: {error}", hint="`odf verify --report FILE` makes one") from None
    report, proof = document.get("report"), document.get("proof")
    if not isinstance(report, dict) or report.get("kind") != KIND:
        raise refuse("it is no verification report", field="report.kind", hint=f"its kind is {KIND}")
    if report.get("version") != VERSION:
        raise refuse(
            f"version {report.get('version')!r} of reports is not known here",
            field="report.version",
            hint="a newer release reads it",
        )
    if set(document) != {"report", "proof"} or not isinstance(proof, dict):
        raise refuse("a report has the members `report` and `proof`, and no others", field="proof")
    signer = _check_signature(report, proof, refuse)
    try:
        ok = report["ok"]
        if not isinstance(ok, bool):
            raise ValueError("`ok` is true or false")
        return SignedReport(
            members=report,
            signer=signer,
            dataset=parse_dataset_id(str(report["dataset"])),
            block=parse_multihash(str(report["checkedTo"])),
            at=Instant.parse(str(report["endedAt"])),
            ok=ok,
        )
    except (KeyError, ValueError, InvalidName) as error:
        raise refuse(f"a member of the report is missing or wrong: {error}", field="report") from None


def _check_signature(report: Mapping[str, Any], proof: Mapping[str, Any], refuse: Any) -> str:
    method, value = proof.get("verificationMethod"), proof.get("proofValue")
    if proof.get("type") != PROOF_TYPE or not isinstance(method, str) or not isinstance(value, str) or value[:1] != "u":
        raise refuse(f"its proof is none of the type {PROOF_TYPE}", field="proof")
    if set(proof) != _PROOF_MEMBERS:
        raise refuse(
            "a proof has the members `type`, `verificationMethod` and `proofValue`, and no others", field="proof"
        )
    try:
        public = parse_did_key(method)
        signature = base64.urlsafe_b64decode(value[1:] + "=" * (-len(value[1:]) % 4))
        if f"u{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}" != value:
            raise ValueError("another spelling of the signature")
        Ed25519PublicKey.from_public_bytes(public).verify(signature, canonical_json(dict(report)).encode())
    except InvalidName as error:
        raise refuse(error.message, field="proof.verificationMethod") from None
    except (InvalidSignature, binascii.Error, ValueError):
        raise refuse(
            f"the signature of {method} does not fit the report",
            field="proof.proofValue",
            rule="signature",
            hint="the report was changed after it was signed: ask its signer for it",
        ) from None
    return did_key(public)

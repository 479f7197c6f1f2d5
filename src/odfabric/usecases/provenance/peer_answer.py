"""The answer of another node to why records are there, read with distrust.

Invariant: what leaves here has the members of an answer and no others, each of its type and within its bounds; whatever is wrong is
CorruptedSource and names the place. Not here: whether the answer agrees with what this node knows (`usecases.provenance.check_claims`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odfabric.domain.provenance.trace import EndReason
from odfabric.errors import CorruptedSource, InvalidName, InvalidRequest
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.operation import OperationType
from odfabric.model.provenance import CellRole
from odfabric.usecases.provenance.provenance_document import parse_why_cursor

INT64_MAX = 2**63 - 1
TEXT_CHARACTERS_MAX = 100_000
CLAIMANTS_MAX = 100
"""Nodes in a row that an answer may name."""
_URL = re.compile(r"https?://[!-~]{1,1000}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """Records as in an answer of this node, and names of datasets there by identity.

    `next`: the cursor of its next page there.
    """

    records: Sequence[dict[str, Any]]
    names: Mapping[str, str]
    left_out: int
    next: str | None = None


@dataclass(frozen=True, slots=True)
class _Maybe:
    """A member that may be null or missing."""

    shape: Any


@dataclass(frozen=True, slots=True)
class _OneOf:
    words: frozenset[str]


_ANY, _SCALAR = object(), object()
_DATASET = parse_dataset_id
_ROWS = {
    "input": int,
    "dataset": _DATASET,
    "alias": str,
    "count": int,
    "ranges": [[int]],
    "more": bool,
    "leftOut": int,
    "end": _Maybe({"reason": str, "message": str}),
}
_CELL = {
    "input": int,
    "offset": int,
    "column": str,
    "of": _Maybe(str),
    "role": _OneOf(frozenset(role.name.lower() for role in CellRole)),
}
_WHY = {
    "found": bool,
    "verified": bool,
    "minimal": bool,
    "alternatives": int,
    "byWatermark": bool,
    "queries": [str],
    "witnesses": [_ROWS],
    "trigger": [_ROWS],
    "cells": [_CELL],
    "cellsLeftOut": bool,
    "notes": [str],
    "how": _Maybe(_ANY),
    "derivedBy": _Maybe({"name": str, "version": str, "digest": str}),
}
_END = {
    "reason": _OneOf(frozenset(reason.value for reason in EndReason)),
    "message": str,
    "source": _Maybe({"kind": str, "sourceName": str, "value": str}),
    "file": _Maybe({name: _Maybe(_SCALAR) for name in ("name", "size", "modifiedAt", "content")}),
    "place": _Maybe({"message": str, "record": _Maybe(int), "records": _Maybe(int)}),
}
_RECORD = {
    "dataset": _DATASET,
    "offset": int,
    "op": _OneOf(frozenset(op.word for op in OperationType)),
    "depth": int,
    "block": {"hash": parse_multihash, "sequence": int, "systemTime": str},
    "values": _Maybe(dict),
    "corrects": _Maybe(int),
    "why": _Maybe(_WHY),
    "end": _Maybe(_END),
    "claimedBy": _Maybe([str]),
}
_ALWAYS = frozenset({"how", "of"})
"""Members that an answer has even where they are null."""


def read_peer_answer(value: object, *, records_max: int) -> PeerAnswer:
    """Raises CorruptedSource for what is no answer."""
    if not isinstance(value, dict):
        raise _wrong("", "is no object")
    records = value.get("records")
    if not isinstance(records, list) or not 1 <= len(records) <= records_max:
        raise _wrong("records", f"is no list of 1 to {records_max} records")
    found: list[dict[str, Any]] = [_shaped(one, _RECORD, f"records[{at}]") for at, one in enumerate(records)]
    for at, one in enumerate(found):
        _check(one, f"records[{at}]")
    datasets = value.get("datasets")
    if not isinstance(datasets, dict):
        raise _wrong("datasets", "is no object")
    left_out = value.get("leftOut")
    return PeerAnswer(found, dict(_names(datasets)), _shaped(left_out, int, "leftOut"), _next(value.get("next")))


def _next(value: object) -> str | None:
    if value is None:
        return None
    try:
        return str(parse_why_cursor(value if isinstance(value, str) else ""))
    except InvalidRequest:
        raise _wrong("next", "is no cursor") from None


def _names(datasets: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Names as they are written in references; others are left out."""
    found = []
    for dataset, known in datasets.items():
        alias = known.get("alias") if isinstance(known, dict) else None
        parts = alias.split("/") if isinstance(alias, str) else []
        try:
            if len(parts) == 2 and all(parse_name(part) is not None for part in parts):
                found.append((str(parse_dataset_id(dataset)), "/".join(parts)))
        except (InvalidName, ValueError):
            continue
    return found


def _check(one: dict[str, Any], path: str) -> None:
    """What types do not say."""
    why = one.get("why")
    for rows in [] if why is None else [*why["witnesses"], *why["trigger"]]:
        for pair in rows["ranges"]:
            if len(pair) != 2 or pair[0] >= pair[1]:
                raise _wrong(f"{path}.why", "has a range that is none")
    if why is not None:
        why["replay"] = None  # its names are those of the other node
    claimants = one.get("claimedBy", [])
    if len(claimants) > CLAIMANTS_MAX or not all(_URL.fullmatch(each) for each in claimants):
        raise _wrong(f"{path}.claimedBy", "does not name nodes")


def _shaped(value: Any, shape: Any, path: str) -> Any:
    """A copy that has the members of the shape and no others."""
    if shape is _ANY:
        return value
    if shape is _SCALAR:
        shape = type(value) if type(value) in (str, int) else str
    if isinstance(shape, _OneOf):
        if not isinstance(value, str) or value not in shape.words:
            raise _wrong(path, f"is none of {', '.join(sorted(shape.words))}")
        return value
    if isinstance(shape, dict):
        return _object(value, shape, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _wrong(path, "is no list")
        return [_shaped(each, shape[0], f"{path}[{at}]") for at, each in enumerate(value)]
    if isinstance(shape, type):
        return _typed(value, shape, path)
    try:
        return str(shape(value if isinstance(value, str) else ""))
    except (InvalidName, ValueError):
        raise _wrong(path, "is no identity or hash") from None


def _typed(value: Any, wanted: type, path: str) -> Any:
    is_in_bounds = True
    if isinstance(value, int):
        is_in_bounds = 0 <= value <= INT64_MAX
    elif isinstance(value, str):
        is_in_bounds = len(value) <= TEXT_CHARACTERS_MAX
    if type(value) is not wanted or not is_in_bounds:
        raise _wrong(path, f"is no {wanted.__name__}, or too large")
    return value


def _object(value: Any, shape: Mapping[str, Any], path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "is no object")
    found: dict[str, Any] = {}
    for name, wanted in shape.items():
        given = value.get(name)
        if isinstance(wanted, _Maybe):
            if given is None:
                if name in _ALWAYS:
                    found[name] = None
                continue
            wanted = wanted.shape
        found[name] = _shaped(given, wanted, f"{path}.{name}")
    return found


def _wrong(path: str, problem: str) -> CorruptedSource:
    return CorruptedSource(f"the answer of another node is none: {path or 'it'} {problem}")

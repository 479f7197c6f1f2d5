"""Check an answer that another node gave, by this node's own datasets and engine.

Invariant: nothing of the answer is believed. Each of its records is read and explained again here; blocks, rows, witnesses, triggers, cells and
sources must be the same, and no record may be missing. Blocks are named by their hashes, so equal ones have the same history on both nodes.
Names of datasets may differ. Not here: what two explanations of one record may say differently (`cli.provenance.why_difference`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from odfabric.cli.backends.backend import Backend, JobFailed, source_text
from odfabric.cli.output import counted
from odfabric.cli.provenance.why_difference import Reached, Record, difference, kinds_of, offsets_of, says_cause
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound
from odfabric.model.why_request import ALL_KINDS, WhyRequest

ANSWER_BYTES_MAX = 64 * 1024 * 1024
OFFSETS_NAMED = 10
"""Records that a line names."""
AT_ONCE = 100
"""Records of a dataset that are explained by one call."""
_ADVICE = {
    NotFound.code: "; pull the dataset",
    LimitExceeded.code: "; --all reads as many rows as it takes",
    InvalidRequest.code: "",
}
"""By code of an error: what to do."""
Answer = Mapping[str, Any]
_Ref = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A record of an answer; `message` says what is wrong with it, if anything.

    `possible`: whether it could be checked here; if not, it may be right.
    """

    dataset: str
    offset: int
    alias: str
    message: str | None
    possible: bool = True

    @property
    def name(self) -> str:
        """The record as people call it."""
        return f"{self.alias} {self.offset}"


def read_answer(path: str) -> Answer:
    """The answer in a file, as `--format json` writes it.

    Raises NotFound, InvalidRequest, LimitExceeded.
    """
    text, shown = source_text(path, bytes_max=ANSWER_BYTES_MAX)
    try:
        value = json.loads(text)
        is_answer = (
            isinstance(value["dataset"], str)
            and all(isinstance(offset, int) for offset in value["asked"])
            and all(_is_record(one) for one in value["records"])
        )
    except (ValueError, KeyError, TypeError):
        is_answer = False
    if not is_answer:
        raise InvalidRequest(f"{shown} is no answer", hint="`odf why .. --format json > FILE` writes one")
    return value  # type: ignore[no-any-return]


def _is_record(one: Mapping[str, Any]) -> bool:
    why = one.get("why")
    rows = [] if why is None else [*why["witnesses"], *why["trigger"]]
    pairs = [pair for each in rows for pair in each["ranges"]]
    return (
        isinstance(one["dataset"], str)
        and isinstance(one["offset"], int)
        and isinstance(one["block"]["hash"], str)
        and isinstance(one["depth"], int)
        and all(isinstance(each["dataset"], str) and isinstance(each["leftOut"], int) for each in rows)
        and all(isinstance(begin, int) and isinstance(end, int) for begin, end in pairs)
    )


def check_answer(backend: Backend, answer: Answer, *, whole: bool = False) -> Iterator[CheckedRecord]:
    """Each record of an answer, and records that it should have.

    `whole`: read as many rows as it takes. Raises Determinate if the engine is away.
    """
    names = {dataset: str(known["alias"]) for dataset, known in answer.get("datasets", {}).items()}
    missing = _missing(answer)
    for dataset, offset in sorted(missing):
        yield CheckedRecord(dataset, offset, names.get(dataset, dataset), missing[dataset, offset])
    reached = _reached(answer)
    groups: dict[tuple[str, bool, bool], list[Record]] = {}
    for one in answer["records"]:
        cause = says_cause(one, answer, reached.get((one["dataset"], one["offset"])))
        groups.setdefault((one["dataset"], one["depth"] == 0, cause), []).append(one)
    for (dataset, asked, cause), records in groups.items():
        wish = WhyRequest(
            offsets=(),
            columns=tuple(answer.get("columns", ())) if asked else (),
            kinds=_kinds(answer, cause=cause),
            depth="1",
            effort=str(answer.get("effort", "verified")),
            limit=1,
            values=True,
            whole=whole,
        )
        for begin in range(0, len(records), AT_ONCE):
            some = records[begin : begin + AT_ONCE]
            own = _explained(backend, dataset, some, wish)
            for one in some:
                here = own[one["offset"]]
                known = reached.get((dataset, one["offset"]))
                message = here if isinstance(here, str) else difference(one, here, answer, known)
                if message is not None and len(some) > 1:
                    # Records that are explained together share a budget.
                    here = _explained(backend, dataset, [one], wish)[one["offset"]]
                    message = here if isinstance(here, str) else difference(one, here, answer, known)
                # Without its inputs this node has a record, and no explanation of it.
                possible = not isinstance(here, str) and not (one.get("why") and here.get("why") is None)
                yield CheckedRecord(dataset, one["offset"], names.get(dataset, dataset), message, possible)


def verdict_lines(checked: Sequence[CheckedRecord]) -> Iterator[str]:
    """Count records that are right, wrong or not checked; then name the last two.

    Those that cannot be checked for one reason share a line.
    """
    possible = [one for one in checked if one.possible]
    wrong = [one for one in possible if one.message is not None]
    others = [one for one in checked if not one.possible]
    verdict = f"{len(wrong)} wrong" if wrong else "all as the answer says" if possible else ""
    said = f"{counted(len(possible), 'record')} checked{': ' if verdict else ''}{verdict}"
    yield said + (f"; {len(others)} could not be checked here" if others else "")
    for one in wrong:
        yield f"  {one.name}: {one.message}"
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for one in others:
        by_reason.setdefault((one.alias, one.message), []).append(str(one.offset))
    for (alias, message), offsets in by_reason.items():
        named = ", ".join(offsets[:OFFSETS_NAMED]) + (", .." if len(offsets) > OFFSETS_NAMED else "")
        yield f"  {alias} {named}: {message}"


def _kinds(answer: Answer, *, cause: bool) -> tuple[str, ...]:
    """What is compared; a cause costs runs of the query, so only where it is said."""
    wanted = set(kinds_of(answer)) - (set() if cause else {"trigger"}) or {"witnesses"}
    return tuple(kind for kind in ALL_KINDS.split(",") if kind in wanted)


def _explained(
    backend: Backend, dataset: str, records: Sequence[Record], wish: WhyRequest
) -> Mapping[int, Record | str]:
    """What this node says of records, or why it cannot."""
    offsets = tuple(one["offset"] for one in records)
    try:
        found: Sequence[Record] = backend.why(dataset, replace(wish, offsets=offsets))["records"]  # type: ignore[assignment]
    except (NotFound, LimitExceeded, InvalidRequest, JobFailed) as error:
        code = error.document.get("code") if isinstance(error, JobFailed) else error.code
        if code not in _ADVICE:
            raise
        if len(records) > 1:
            parts = (_explained(backend, dataset, [one], wish) for one in records)
            return {offset: own for part in parts for offset, own in part.items()}
        message = str(error) if isinstance(error, JobFailed) else error.message
        return dict.fromkeys(offsets, f"it cannot be checked here: {message}{_ADVICE[code]}")
    return {one["offset"]: one for one in found if one["dataset"] == dataset and one["depth"] == 0}


def _reached(answer: Answer) -> Mapping[_Ref, Reached]:
    """Records that something in the answer leads to, and how."""
    found: dict[_Ref, set[str]] = {(answer["dataset"], offset): set() for offset in answer["asked"]}
    causes = set(found)
    for one in sorted(answer["records"], key=lambda each: each["depth"]):
        why = one.get("why") or {"witnesses": (), "trigger": (), "cells": ()}
        inputs = {rows["input"]: rows["dataset"] for rows in (*why["witnesses"], *why["trigger"])}
        for rows in (*why["witnesses"], *why["trigger"]):
            for offset in offsets_of(rows, answer):
                found.setdefault((rows["dataset"], offset), set())
        if (one["dataset"], one["offset"]) in causes:
            causes |= {(rows["dataset"], offset) for rows in why["trigger"] for offset in offsets_of(rows, answer)}
        for cell in why["cells"]:
            ref = (inputs.get(cell["input"], ""), cell["offset"])
            if ref in found and cell["role"] in ("copied", "computed"):
                found[ref].add(cell["column"])
    return {ref: Reached(frozenset(columns), ref in causes) for ref, columns in found.items()}


def _missing(answer: Answer) -> Mapping[_Ref, str]:
    """Records that the answer should have, by what it says itself."""
    there = {(one["dataset"], one["offset"]) for one in answer["records"]}
    found = {
        (answer["dataset"], offset): "it was asked for, and the answer does not have it"
        for offset in answer["asked"]
        if (answer["dataset"], offset) not in there
    }
    for one in answer["records"]:
        why = one.get("why") or {"witnesses": (), "trigger": ()}
        skipped = int(answer.get("skip", 0)) if one["depth"] == 0 else 0
        for rows in (*why["witnesses"], *why["trigger"]):
            if rows["more"] or rows.get("end"):
                continue
            offsets = offsets_of(rows, answer)
            left = [offset for offset in offsets if (rows["dataset"], offset) not in there]
            if len(left) > rows["leftOut"] + min(skipped, len(offsets)):
                for offset in left:
                    found[rows["dataset"], offset] = (
                        f"the record {one['offset']} names it, and the answer leaves it out"
                    )
    return found

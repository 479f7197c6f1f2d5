"""Check an answer that another node gave, by this node's own datasets and engine.

Invariant: nothing of the answer is believed. Each of its records is read and explained again here, and blocks, rows and witnesses must be
the same; blocks are named by their hashes, so equal ones have the same history on both nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from odfabric.cli.backends.backend import Backend, source_text
from odfabric.errors import InvalidRequest, NotFound
from odfabric.usecases.provenance.why_request import WhyRequest

ANSWER_BYTES_MAX = 64 * 1024 * 1024
Answer = Mapping[str, Any]
Record = Mapping[str, Any]


def read_answer(path: str) -> Answer:
    """The answer in a file, as `--format json` writes it.

    Raises NotFound, InvalidRequest, LimitExceeded.
    """
    text, shown = source_text(path, bytes_max=ANSWER_BYTES_MAX)
    try:
        value = json.loads(text)
        is_answer = all(
            isinstance(one["dataset"], str) and isinstance(one["offset"], int) and isinstance(one["block"]["hash"], str)
            for one in value["records"]
        )
    except (ValueError, KeyError, TypeError):
        is_answer = False
    if not is_answer:
        raise InvalidRequest(f"{shown} is no answer", hint="`odf why .. --format json > FILE` writes one")
    return value  # type: ignore[no-any-return]


def check_answer(backend: Backend, answer: Answer) -> Iterator[tuple[str, str | None]]:
    """Each record of an answer, and what is wrong with it, None if nothing.

    Raises Determinate if the engine is away.
    """
    by_dataset: dict[str, list[Record]] = {}
    for one in answer["records"]:
        by_dataset.setdefault(one["dataset"], []).append(one)
    for dataset, records in by_dataset.items():
        asked = WhyRequest(
            offsets=tuple(one["offset"] for one in records), kinds=("witnesses",), depth="1", values=True
        )
        try:
            own = {
                one["offset"]: one
                for one in backend.why(dataset, asked)["records"]  # type: ignore[attr-defined]
                if one["dataset"] == dataset
            }
        except NotFound as error:
            for one in records:
                yield f"{dataset} {one['offset']}", f"it cannot be checked here: {error.message}; pull the dataset"
            continue
        for one in records:
            yield f"{dataset} {one['offset']}", _difference(one, own[one["offset"]])


def _difference(said: Record, own: Record) -> str | None:
    """What the two say differently of a record."""
    if said["block"]["hash"] != own["block"]["hash"]:
        return f"block {said['block']['hash']} has it there, {own['block']['hash']} here"
    if said.get("op") != own["op"]:
        return f"it is {said.get('op')} there, {own['op']} here"
    if "values" in said and said["values"] != own["values"]:
        return f"its row is {said['values']} there, {own['values']} here"
    if said.get("why") is None:
        return None
    why = own.get("why")
    if why is None or not why["verified"]:
        end = own.get("end") or {"message": "the query over its rows alone does not give it"}
        return f"it cannot be explained here: {end['message']}"
    if _witnesses(said) != _witnesses(own):
        return f"its rows are {_witnesses(said)} there, {_witnesses(own)} here"
    return None


def _witnesses(one: Record) -> list[tuple[str, int, str]]:
    return sorted((rows["dataset"], rows["count"], str(rows["ranges"])) for rows in one["why"]["witnesses"])

"""States as bytes: whole (rollups), and changes between versions (diffs).

Owns the stored form: JSON, one entry for each field, handle, batch and rollup. Invariant: a rollup of version n plus all diffs
after n gives the same state as any later rollup, and whatever is damaged or newer is refused, never guessed at.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from odfabric_persist.errors import Corrupt
from odfabric_persist.state import FORMAT, Batch, Claim, Critical, Part, Reader, State, Writer

_MERGED = "batches-gone"
_FIELDS = ("codec", "walltime_ms", "since", "upper", "tombstone")
_HANDLES: Mapping[str, type[Writer] | type[Reader] | type[Critical] | type[Claim]] = {
    "writers": Writer,
    "readers": Reader,
    "criticals": Critical,
    "claims": Claim,
}


@dataclass(frozen=True, slots=True)
class Diff:
    """What made a version out of the one before.

    `nonce` says whose attempt it was; `rollup` is where to start reading.
    """

    seqno: int
    nonce: str
    rollup: tuple[int, str]
    entries: Mapping[str, Any]


def encode_rollup(state: State) -> bytes:
    """A whole state."""
    return _dump({"format": FORMAT, "shard": state.shard, "seqno": state.seqno, "entries": _entries(state)})


def decode_rollup(data: bytes) -> State:
    """Raises Corrupt."""
    document = _load(data)
    try:
        empty = State(shard=document["shard"], seqno=document["seqno"], codec="", walltime_ms=0)
        return _applied(empty, document["seqno"], document["entries"])
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"a rollup is damaged: {error!r}") from error


def encode_diff(before: State | None, after: State, *, nonce: str, rollup: tuple[int, str]) -> bytes:
    """What changed; everything if there was nothing before."""
    entries = _entries(after, unlike=before)
    if before is not None:
        entries |= dict.fromkeys(_names(before) - _names(after))
        merged = _merged(before, after)
        entries |= {_MERGED: merged} if merged else {}
    return _dump({"format": FORMAT, "seqno": after.seqno, "nonce": nonce, "rollup": list(rollup), "entries": entries})


def decode_diff(data: bytes) -> Diff:
    """Raises Corrupt."""
    document = _load(data)
    try:
        seqno, key = document["rollup"]
        return Diff(document["seqno"], document["nonce"], (int(seqno), str(key)), dict(document["entries"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"a version is damaged: {error!r}") from error


def apply_diff(state: State, diff: Diff) -> State:
    """The version after. Raises Corrupt if it is not the one that follows."""
    if diff.seqno != state.seqno + 1:
        raise Corrupt(f"version {diff.seqno} does not follow {state.seqno}")
    try:
        return _applied(state, diff.seqno, diff.entries)
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"version {diff.seqno} is damaged: {error!r}") from error


def _entries(state: State, *, unlike: State | None = None) -> dict[str, Any]:
    """Entries by name; with `unlike` those that are not the same there.

    What was not touched is the same object.
    """
    found: dict[str, Any] = {}
    for name in _FIELDS:
        if unlike is None or getattr(unlike, name) != getattr(state, name):
            found[name] = [getattr(state, name)]
    for kind in _HANDLES:
        mine, other = getattr(state, kind), None if unlike is None else getattr(unlike, kind)
        if mine is not other:
            found |= {
                f"{kind}/{name}": _handle(one) for name, one in mine.items() if other is None or other.get(name) != one
            }
    known = {} if unlike is None or unlike.batches is state.batches else {one.id: one for one in unlike.batches}
    if unlike is None or unlike.batches is not state.batches:
        found |= {
            f"batch/{one.id}": batch_document(one, state.shard) for one in state.batches if known.get(one.id) is not one
        }
    others = {} if unlike is None else unlike.rollups
    found |= {f"rollup/{seqno}": key for seqno, key in state.rollups.items() if seqno not in others}
    return found


def _names(state: State) -> set[str]:
    handles = {f"{kind}/{name}" for kind in _HANDLES for name in getattr(state, kind)}
    rollups = {f"rollup/{seqno}" for seqno in state.rollups}
    return handles | rollups


def _merged(before: State, after: State) -> list[str]:
    """Batches that are gone, in one entry: a merge takes many away at once."""
    if before.batches is after.batches:
        return []
    left = {one.id for one in after.batches}
    return [one.id for one in before.batches if one.id not in left]


def _applied(state: State, seqno: int, entries: Mapping[str, Any]) -> State:
    values: dict[str, Any] = {name: getattr(state, name) for name in _FIELDS}
    handles = {kind: dict(getattr(state, kind)) for kind in _HANDLES}
    batches = {one.id: one for one in state.batches}
    rollups = dict(state.rollups)
    for name, value in entries.items():
        kind, _, rest = name.partition("/")
        if name in _FIELDS:
            (values[name],) = value
        elif kind in handles:
            _put(handles[kind], rest, None if value is None else _HANDLES[kind](**value))
        elif kind == "batch":
            batches[rest] = batch_of_document(rest, value, state.shard)
        elif kind == _MERGED:
            for gone in value:
                del batches[gone]
        elif kind == "rollup":
            _put(rollups, int(rest), value)
        else:
            raise ValueError(f"unknown entry {name}")
    ordered = tuple(sorted(batches.values(), key=lambda batch: batch.lower))
    fields: dict[str, Any] = {**values, **handles}
    return State(shard=state.shard, seqno=seqno, batches=ordered, rollups=rollups, **fields)


def _put(entries: dict[Any, Any], name: Any, value: Any) -> None:
    if value is None:
        entries.pop(name, None)
    else:
        entries[name] = value


def _handle(one: Writer | Reader | Critical | Claim) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def batch_document(one: Batch, shard: str) -> dict[str, Any]:
    """A batch of a shard without its id, as JSON has it.

    Keys of its blobs are distinguished from the shard on.
    """
    return {
        "bounds": [one.lower, one.upper, one.since],
        "level": one.level,
        "runs": [[_part(part, shard) for part in run] for run in one.runs],
    }


def batch_of_document(name: str, value: Mapping[str, Any], shard: str) -> Batch:
    """The batch again. Raises KeyError, TypeError, ValueError."""
    lower, upper, since = value["bounds"]
    runs = tuple(tuple(_part_of(part, shard) for part in run) for run in value["runs"])
    return Batch(name, lower, upper, since, runs, value["level"])


def _part(part: Part, shard: str) -> list[Any]:
    where: Any
    if part.inline is not None:
        where = {"inline": base64.b64encode(part.inline).decode()}
    elif part.external is not None:
        where = {"external": part.external}
    else:
        assert part.key is not None
        assert part.key.startswith(f"{shard}/"), "a shard names blobs of its own only"
        where = part.key.removeprefix(f"{shard}/")
    stored = [part.rows, part.size, part.crc, where]
    return [*stored, part.moved_to] if part.moved_to else stored


def _part_of(value: list[Any], shard: str) -> Part:
    rows, size, crc, where, moved_to = value if len(value) == 5 else [*value, 0]
    part = Part(int(rows), int(size), int(crc), moved_to=int(moved_to))
    match where:
        case str():
            return replace(part, key=f"{shard}/{where}")
        case {"inline": str(text), **more} if not more:
            return replace(part, inline=base64.b64decode(text, validate=True))
        case {"external": str(text), **more} if not more:
            return replace(part, external=text)
    raise ValueError("a part lies where this software cannot look")


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _load(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
        written = document["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"a stored state is damaged: {error!r}") from error
    if not isinstance(written, int) or written > FORMAT:
        raise Corrupt(f"a stored state has format {written}, this software reads up to {FORMAT}: it is newer")
    return dict(document)

"""What two explanations of one record say differently. Pure.

Words of engines (`notes`, `how`) are compared where the same build wrote both; names of datasets and the text to replay are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
RANGES_OFFSETS_MAX = 1_000_000
"""Offsets of one input of which records are looked for in an answer."""
_BY_BUILD = ("notes", "how")
_SAID = ("found", "verified", "minimal", "alternatives", "byWatermark", "queries")


@dataclass(frozen=True, slots=True)
class Reached:
    """How an answer leads to a record: by which cells, and whether as a cause.

    Only of records that were asked for, and of what caused them, it has to say the cause.
    """

    cells: frozenset[str] = frozenset()
    is_cause: bool = False


def difference(said: Record, own: Record, answer: Mapping[str, Any], reached: Reached | None) -> str | None:
    """What is wrong with a record of an answer, None if nothing.

    `reached`: None if nothing in the answer leads to it.
    """
    if reached is None:
        return "nothing in the answer leads to it"
    return _of_record(said, own) or _of_end(said, own) or _of_why(said, own, answer, reached)


def says_cause(said: Record, answer: Mapping[str, Any], reached: Reached | None) -> bool:
    """Whether an answer says what made a node write a record, or has to."""
    why = said.get("why")
    if why is None or "trigger" not in kinds_of(answer):
        return False
    return bool((reached is not None and reached.is_cause) or why["trigger"] or why.get("byWatermark"))


def kinds_of(answer: Mapping[str, Any]) -> Sequence[str]:
    """What an answer was asked for."""
    found: Sequence[str] = answer.get("kinds", ("witnesses",))
    return found


def offsets_of(rows: Mapping[str, Any], answer: Mapping[str, Any]) -> Sequence[int]:
    """Offsets of an input that records of an answer can have, from its ranges."""
    there = {one["offset"] for one in answer["records"] if one["dataset"] == rows["dataset"]}
    size = sum(end - begin for begin, end in rows["ranges"])
    if size > RANGES_OFFSETS_MAX:
        return [offset for offset in sorted(there) if any(begin <= offset < end for begin, end in rows["ranges"])]
    return [offset for begin, end in rows["ranges"] for offset in range(begin, end)]


def _of_record(said: Record, own: Record) -> str | None:
    for name, word in (("hash", "block"), ("sequence", "block number"), ("systemTime", "system time")):
        if said["block"].get(name) != own["block"][name]:
            return f"its {word} is {said['block'].get(name)} there, {own['block'][name]} here"
    if said.get("op") != own["op"]:
        return f"it is {said.get('op')} there, {own['op']} here"
    if "values" in said and said["values"] != own["values"]:
        return f"its row is {_changed(said['values'], own['values'])}"
    if said["depth"] == 0 and said.get("corrects") != own.get("corrects"):
        return f"it is about the record {said.get('corrects')} there, {own.get('corrects')} here"
    if "before" in said and said["before"] != own.get("before"):
        return f"the row before it is {_changed(said['before'], own.get('before') or {})}"
    return None


def _changed(said: object, own: Mapping[str, object]) -> str:
    if not isinstance(said, Mapping) or said.keys() != own.keys():
        return f"{said} there, {own} here"
    names = [name for name in own if said[name] != own[name]]
    there, here = (", ".join(f"{name}={row[name]}" for name in names) for row in (said, own))
    return f"{there} there, {here} here"


def _of_end(said: Record, own: Record) -> str | None:
    """Of what was ingested: source and file."""
    there, here = said.get("end") or {}, own.get("end") or {}
    if "root" not in (there.get("reason"), here.get("reason")):
        return None
    for name in ("reason", "source", "file"):
        if there.get(name) != here.get(name):
            return f"its {name} is {there.get(name)} there, {here.get(name)} here"
    # The words are this software's; a place is a number.
    places = [each.get("place") or {} for each in (there, here)]
    numbers = [(place.get("record"), place.get("records")) for place in places]
    if all(places) and numbers[0] != numbers[1]:
        return f"its place is {places[0].get('message')} there, {places[1].get('message')} here"
    return None


def _of_why(said: Record, own: Record, answer: Mapping[str, Any], reached: Reached) -> str | None:
    why, here = said.get("why"), own.get("why")
    if why is None:
        return None
    if here is None:
        return f"it cannot be explained here: {own['end']['message']}"
    if not here["found"]:
        return "the query gives no such row here"
    if not here["verified"] and answer.get("effort") != "lineage":
        return "the query over its rows alone does not give it here"
    kinds, cause = kinds_of(answer), says_cause(said, answer, reached)
    if "witnesses" in kinds and _rows(why["witnesses"]) != _rows(here["witnesses"], why["witnesses"]):
        return f"its rows are {_shown(why['witnesses'])} there, {_shown(here['witnesses'])} here"
    if cause and _rows(why["trigger"]) != _rows(here["trigger"], why["trigger"]):
        return f"it was triggered by {_shown(why['trigger'])} there, {_shown(here['trigger'])} here"
    names = [name for name in _SAID if name != "byWatermark" or cause]
    if why.get("derivedBy") == here.get("derivedBy") and not any(rows.get("end") for rows in why["witnesses"]):
        names += [name for name in _BY_BUILD if why.get(name) and (name != "notes" or cause)]
    for name in names:
        if why.get(name) != here.get(name):
            return f"`{name}` is {why.get(name)} there, {here.get(name)} here"
    return _of_cells(why, here, reached.cells if said["depth"] else None) if "cells" in kinds else None


def _of_cells(why: Mapping[str, Any], here: Mapping[str, Any], reached: frozenset[str] | None) -> str | None:
    """Cells of the columns that the answer explains, and of those it leads to.

    Of a record that was asked for (None), both explain the same columns.
    """
    if why.get("cellsLeftOut") or here["cellsLeftOut"]:
        return None
    hidden = {rows["input"] for rows in why["witnesses"] if rows.get("end")}
    there = _cells(why["cells"])
    columns = {cell["of"] for cell in (here if reached is None else why)["cells"]} | {None} | (reached or frozenset())
    own = _cells(cell for cell in here["cells"] if cell["input"] not in hidden and cell["of"] in columns)
    for cell in sorted(there ^ own):
        number, offset, column, of, role = cell
        place = "there, not here" if cell in there else "here, not there"
        return f"the cell {column} of record {offset} of input {number} is {role} for {of or 'the row'} {place}"
    return None


def _cells(cells: Iterable[Mapping[str, Any]]) -> set[tuple[int, int, str, str, str]]:
    return {(cell["input"], cell["offset"], cell["column"], cell["of"] or "", cell["role"]) for cell in cells}


def _rows(rows: Sequence[Mapping[str, Any]], like: Sequence[Mapping[str, Any]] | None = None) -> Sequence[object]:
    """Rows by input; of inputs that the other answer may not name there are counts."""
    hidden = {(each["input"], each["dataset"]) for each in (rows if like is None else like) if each.get("end")}
    return sorted(
        (each["input"], each["dataset"], each["count"], "" if key in hidden else str(each["ranges"]))
        for each in rows
        for key in [(each["input"], each["dataset"])]
    )


def _shown(rows: Sequence[Mapping[str, Any]]) -> str:
    from odfabric.cli.provenance.why_text import rows_text

    return "; ".join(map(rows_text, rows)) or "none"

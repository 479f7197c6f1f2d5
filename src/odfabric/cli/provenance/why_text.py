"""Answers to why records are there, as a table and as a tree of lines.

Pure; owns the words. Not here: where lines go (`cli.output`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odfabric.cli.output import counted

Answer = Mapping[str, Any]
Record = Mapping[str, Any]

ROWS_SHOWN = 20
"""Records under one input that a tree shows; it says how many more there are."""
RANGES_SHOWN = 10
"""Ranges of offsets of one input that a line names."""
SIGNS = {"append": "+A", "retract": "-R", "correct_from": "-C", "correct_to": "+C"}
ROLES = ("copied", "computed", "compared", "inspected")
GIVING = ("copied", "computed")
"""Roles of cells that give a value; the others decide which one."""
WITHDRAWALS = ("retract", "correct_from")
SENTENCES = {
    "append": "was added",
    "retract": "was withdrawn",
    "correct_from": "was withdrawn to be corrected",
    "correct_to": "was written as a correction",
}


def why_rows(answer: Answer) -> list[dict[str, object]]:
    """A row for each record: where it is, and what is behind it."""
    return [
        {
            "depth": one["depth"],
            "dataset": alias_of(answer, one["dataset"]),
            "offset": one["offset"],
            "op": one["op"],
            "block": one["block"]["sequence"],
            "system_time": one["block"]["systemTime"],
            "behind": _behind(one),
            **({"values": values_text(one["values"])} if "values" in one else {}),
        }
        for one in answer["records"]
    ]


def why_tree(answer: Answer) -> Iterator[str]:
    """Lines of a tree, from what was asked to what was ingested."""
    records = {(one["dataset"], one["offset"]): one for one in answer["records"]}
    shown: set[tuple[str, int]] = set()
    for one in answer["records"]:
        if one["depth"] == 0:
            yield from _branch(answer, one, records, shown, indent="")


def alias_of(answer: Answer, dataset: str) -> str:
    """What a dataset is called, or its identity."""
    known = answer["datasets"].get(dataset)
    if not known:
        return dataset
    # A name of another node may be that of something else here.
    at = known.get("claimedBy")
    return f"{known['alias']} at {at[-1]}" if at else str(known["alias"])


def values_text(values: Mapping[str, object]) -> str:
    """Values of a row on one line."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())


def value_text(value: object) -> str:
    """A value as JSON has it, a text without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _replaced(one: Record) -> str:
    """The values that a correction takes the place of."""
    now = one.get("values", {})
    old = {name: value for name, value in (one.get("before") or {}).items() if value != now.get(name)}
    return f": {values_text(old)} before" if old else ""


def rows_text(rows: Mapping[str, Any]) -> str:
    """How many records of an input, and which."""
    count = counted(rows["count"], "row")
    spans = [str(begin) if end == begin + 1 else f"{begin}..{end - 1}" for begin, end in rows["ranges"]]
    shown = [*spans[:RANGES_SHOWN], *([".."] if rows["more"] or len(spans) > RANGES_SHOWN else [])]
    return f"{rows['alias']}: {count}" + (f" ({', '.join(shown)})" if spans else "")


def end_text(one: Record) -> str | None:
    """Why a branch goes no further."""
    end = one.get("end")
    if end is None:
        return None
    if end["reason"] != "root":
        return f"{end['reason']}: {end['message']}"
    source, block = end.get("source"), one["block"]
    name = "" if not source or source["sourceName"] == "default" else f" from source {source['sourceName']}"
    state = ""
    if source and not source["kind"].startswith("odfabric/"):
        state = f", {source['kind'].rpartition('/')[2]} {source['value']}"
    file = end.get("file", {})
    if file:
        state = f" of {file['name']}" if "name" in file else f" of content {file['content']}"
    place = end.get("place")
    if place and file.get("name") and f"file {file['name']}" in place["message"]:
        state = ""  # the place names it
    where = f": {place['message']}" if place else ""
    done = "withdrawn" if one.get("op") in WITHDRAWALS else "ingested"
    return f"{done} by block {block['sequence']} at {block['systemTime']}{name}{state}{where}"


def _end_said(one: Record) -> str | None:
    """Why a branch goes no further, but for the depth: that is said once."""
    return None if one.get("end", {}).get("reason") == "depth" else end_text(one)


def _origin(one: Record) -> str | None:
    """Of a root what is known of a record, without what other columns say."""
    end = one.get("end")
    if end is None or end["reason"] != "root":
        return None
    place, file = end.get("place", {}), end.get("file", {})
    done = "withdrawn" if one["op"] in WITHDRAWALS else "ingested"
    if "record" in place or (place and done == "withdrawn"):
        return f"{done}: {place['message']}"
    return f"{done} from file {file['name']}" if "name" in file else done


def _behind(one: Record) -> str:
    end, why = _origin(one) or _end_said(one), one.get("why")
    if end is not None:
        return end
    if why is None:
        return ""
    judged = f" [claimed by {one['claimedBy'][0]}]" if "claimedBy" in one else " [verified]" if why["verified"] else ""
    return "; ".join(map(rows_text, why["witnesses"])) + judged


def _branch(
    answer: Answer,
    one: Record,
    records: Mapping[tuple[str, int], Record],
    shown: set[tuple[str, int]],
    *,
    indent: str,
) -> Iterator[str]:
    key = (one["dataset"], one["offset"])
    values = f"  {values_text(one['values'])}" if "values" in one else ""
    line = f"{indent}{alias_of(answer, one['dataset'])} {one['offset']} {SIGNS[one['op']]}{values}"
    if key in shown:
        yield f"{line}  (see above)"
        return
    shown.add(key)
    yield line
    inner = indent + "  "
    if one.get("corrects") is not None:
        verb = "corrects" if one["op"] == "correct_to" else "withdraws"
        yield f"{inner}it {verb} record {one['corrects']}{_replaced(one)}"
    end, why = _end_said(one), one.get("why")
    if end is not None:
        yield f"{inner}{end}"
    if why is not None:
        yield from _explained(answer, why, one, records, shown, indent=inner)


def _explained(
    answer: Answer,
    why: Mapping[str, Any],
    one: Record,
    records: Mapping[tuple[str, int], Record],
    shown: set[tuple[str, int]],
    *,
    indent: str,
) -> Iterator[str]:
    yield f"{indent}{_judgement(one, why)}"
    for note in why["notes"]:
        yield f"{indent}note: {note}"
    for cell in _roles(why):
        yield f"{indent}{cell}"
    if one["depth"] == 0 and why["found"] and "claimedBy" not in one:
        yield from (f"{indent}{cell}" for cell in _from_nothing(answer, why))
    if why["byWatermark"]:
        yield f"{indent}{SENTENCES[one['op']]} because a watermark moved"
    elif why["trigger"]:
        yield f"{indent}{SENTENCES[one['op']]} because of {'; '.join(map(rows_text, why['trigger']))}"
    for rows in why["trigger"]:
        yield from _causes(answer, rows, why["witnesses"], records, shown, indent=indent + "  ")
    for rows in why["witnesses"]:
        yield f"{indent}made of {rows_text(rows)}{_end_of(rows)}"
        yield from _children(answer, rows, records, shown, indent=indent + "  ")
    if one.get("further") is not None:
        yield f"{indent}the other node shows the further rows: {one['further']}"


def _causes(
    answer: Answer,
    rows: Mapping[str, Any],
    witnesses: Sequence[Mapping[str, Any]],
    records: Mapping[tuple[str, int], Record],
    shown: set[tuple[str, int]],
    *,
    indent: str,
) -> Iterator[str]:
    """Records that made a block write the record and are not what it is made of."""
    made_of = [span for each in witnesses if each["input"] == rows["input"] for span in each["ranges"]]
    for begin, end in rows["ranges"]:
        for offset in range(begin, min(end, begin + len(records))):
            one = records.get((rows["dataset"], offset))
            if one is not None and not any(first <= offset < last for first, last in made_of):
                yield from _branch(answer, one, records, shown, indent=indent)


def _children(
    answer: Answer,
    rows: Mapping[str, Any],
    records: Mapping[tuple[str, int], Record],
    shown: set[tuple[str, int]],
    *,
    indent: str,
) -> Iterator[str]:
    offsets = [offset for begin, end in rows["ranges"] for offset in range(begin, min(end, begin + len(records)))]
    followed = [offset for offset in offsets if (rows["dataset"], offset) in records]
    for offset in followed[:ROWS_SHOWN]:
        yield from _branch(answer, records[rows["dataset"], offset], records, shown, indent=indent)
    left = rows["count"] - len(followed[:ROWS_SHOWN])
    if left > 0 and rows["ranges"]:
        yield f"{indent}and {left} more"


def _judgement(one: Record, why: Mapping[str, Any]) -> str:
    if "claimedBy" in one:
        return f"claimed by {', '.join(one['claimedBy'])}, not checked here"
    if not why["found"]:
        return "not reproduced: the query gives no such row over these inputs"
    alternatives = f", one of {why['alternatives']} equal rows" if why["alternatives"] > 1 else ""
    checked = "verified: the query over these rows alone gives it" if why["verified"] else "not verified"
    return f"{checked}{', minimal' if why['minimal'] else ''}{alternatives}"


def _end_of(rows: Mapping[str, Any]) -> str:
    return f" - {rows['end']['message']}" if rows.get("end") else ""


def _roles(why: Mapping[str, Any]) -> Iterator[str]:
    """For each output column the input columns behind it, with their roles.

    Where not all of the records give it a value, those that do.
    """
    found: dict[str, dict[str, list[str]]] = {}
    givers: dict[str, set[tuple[int, int]]] = {}
    for cell in why["cells"]:
        if cell["of"] is not None:
            roles = found.setdefault(cell["of"], {}).setdefault(cell["column"], [])
            if cell["role"] not in roles:
                roles.append(cell["role"])
            if cell["role"] in GIVING:
                givers.setdefault(cell["of"], set()).add((cell["input"], cell["offset"]))
    for column, behind in found.items():
        parts = [f"{name} ({', '.join(sorted(roles, key=ROLES.index))})" for name, roles in behind.items()]
        yield f"{column} from {', '.join(parts)}{_of(givers.get(column, set()), why)}"


def _of(givers: set[tuple[int, int]], why: Mapping[str, Any]) -> str:
    """The records that give a cell its value; nothing if all of their input do."""
    if why.get("cellsLeftOut") or not 0 < len(givers) <= RANGES_SHOWN:
        return ""
    parts = []
    for rows in why["witnesses"]:
        offsets = sorted(offset for at, offset in givers if at == rows["input"])
        if offsets and len(offsets) < rows["count"]:
            parts.append(f"{rows['alias']} {', '.join(map(str, offsets))}")
    return f" of {'; '.join(parts)}" if parts else ""


def _from_nothing(answer: Answer, why: Mapping[str, Any]) -> Iterator[str]:
    """The cells asked for that no cell of an input gives a value."""
    if "cells" not in answer.get("kinds", ()) or why.get("cellsLeftOut"):
        return
    given = {cell["of"] for cell in why["cells"]}
    for column in answer.get("columns", ()):
        if column not in given:
            yield f"{column} comes from no cell of these rows: it is a constant, or no row matched"

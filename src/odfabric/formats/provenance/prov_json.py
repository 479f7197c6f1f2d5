"""An answer to why records are there as PROV-JSON.

Owns the mapping: a record is an entity, a block an activity, an engine an agent, the query of a block its plan. Records that an answer
counts but does not follow are one entity, a collection with their ranges. Source: W3C PROV-DM; the PROV-JSON submission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

PREFIXES: Final = {
    "odf": "did:odf:",
    "block": "urn:odf:block:",
    "engine": "urn:odf:engine:",
    "odfp": "urn:odf:provenance:",
}
_WITHDRAWALS = ("retract", "correct_from")


def prov_document(
    answer: Mapping[str, Any], *, lineage: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The document of an answer (`usecases.provenance.provenance_document`).

    `lineage` by dataset is that of its columns by a query (`usecases.provenance.column_lineage`): the plans that are this query have it.
    """
    document = _Document()
    known = {(one["dataset"], one["offset"]) for one in answer["records"]}
    for one in answer["records"]:
        document.add_record(one, answer["datasets"])
        if one.get("why") is not None:
            document.add_why(one, one["why"], known)
            static = (lineage or {}).get(one["dataset"])
            if static is not None and static["columns"] and static["queries"] == list(one["why"]["queries"]):
                document.add_columns(one["block"]["hash"], static["columns"])
    return {"prefix": dict(PREFIXES), **{name: values for name, values in document.parts.items() if values}}


class _Document:
    """Parts of a document under way, by the names of PROV-JSON."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, dict[str, Any]]] = {
            name: {}
            for name in (
                *("entity", "activity", "agent", "wasGeneratedBy", "wasInvalidatedBy"),
                *("wasDerivedFrom", "used", "wasAssociatedWith"),
            )
        }

    def add_record(self, one: Mapping[str, Any], datasets: Mapping[str, Any]) -> None:
        """A record, and the block that wrote it."""
        name, block = _record_name(one["dataset"], one["offset"]), f"block:{one['block']['hash']}"
        known = datasets.get(one["dataset"])
        entity: dict[str, Any] = {"odfp:operation": one["op"], "odfp:offset": one["offset"]}
        if "claimedBy" in one:
            entity["odfp:claimedBy"] = list(one["claimedBy"])
        if known is not None:
            entity["prov:label"] = f"{known['alias']} {one['offset']}"
        for column, value in one.get("values", {}).items():
            entity[f"odfp:{_local(column)}"] = value if isinstance(value, str | int | float | bool) else str(value)
        self.parts["entity"][name] = entity
        time = one["block"]["systemTime"]
        self.parts["activity"][block] = {
            "prov:startTime": time,
            "prov:endTime": time,
            "odfp:sequence": one["block"]["sequence"],
        }
        self._relate("wasGeneratedBy", {"prov:entity": name, "prov:activity": block, "prov:time": time})
        corrects = one.get("corrects")
        if one["op"] in _WITHDRAWALS:
            ended = name if corrects is None else _record_name(one["dataset"], corrects)
            self.parts["entity"].setdefault(ended, {"odfp:offset": corrects})
            self._relate("wasInvalidatedBy", {"prov:entity": ended, "prov:activity": block, "prov:time": time})
        elif corrects is not None:
            before = _record_name(one["dataset"], corrects)
            self.parts["entity"].setdefault(before, {"odfp:offset": corrects})
            revision = {"$": "prov:Revision", "type": "prov:QUALIFIED_NAME"}
            self._relate(
                "wasDerivedFrom", {"prov:generatedEntity": name, "prov:usedEntity": before, "prov:type": revision}
            )

    def add_why(self, one: Mapping[str, Any], why: Mapping[str, Any], known: set[tuple[str, int]]) -> None:
        """What a record is made of, and what made its block write it."""
        name, block = _record_name(one["dataset"], one["offset"]), f"block:{one['block']['hash']}"
        for rows in why["witnesses"]:
            for source in self._sources(rows, known):
                self._relate(
                    "wasDerivedFrom",
                    {
                        "prov:generatedEntity": name,
                        "prov:usedEntity": source,
                        "prov:activity": block,
                        "odfp:role": "witness",
                    },
                )
        for rows in why["trigger"]:
            for source in self._sources(rows, known):
                self._relate("used", {"prov:activity": block, "prov:entity": source, "odfp:role": "trigger"})
        plan = _plan_name(one["block"]["hash"])
        self.parts["entity"][plan] = {
            "prov:type": {"$": "prov:Plan", "type": "prov:QUALIFIED_NAME"},
            "prov:value": ";\n".join(why["queries"]),
        }
        engine = why.get("derivedBy")
        if engine is not None:
            agent = f"engine:{_local(engine['name'])}-{_local(engine['version'])}"
            self.parts["agent"][agent] = {
                "prov:type": {"$": "prov:SoftwareAgent", "type": "prov:QUALIFIED_NAME"},
                "odfp:digest": engine["digest"],
            }
            # One association for each block, however many of its records are explained.
            self.parts["wasAssociatedWith"][f"_:with-{block}"] = {
                "prov:activity": block,
                "prov:agent": agent,
                "prov:plan": plan,
            }

    def add_columns(self, block: str, columns: Sequence[Mapping[str, Any]]) -> None:
        """What the columns of a plan's output are made of."""
        self.parts["entity"][_plan_name(block)]["odfp:columnLineage"] = [
            f"{one['of']} from {one['name']} {one['column']} ({one['role']}, {one['transformation']})"
            for one in columns
        ]

    def _sources(self, rows: Mapping[str, Any], known: set[tuple[str, int]]) -> Iterator[str]:
        """Entities of the records of an input: followed ones, and the others together."""
        followed = [(dataset, offset) for dataset, offset in known if _has(rows, dataset, offset)]
        for dataset, offset in sorted(followed):
            yield _record_name(dataset, offset)
        left = rows["count"] - len(followed)
        if left > 0:
            ranges = " ".join(f"{begin}..{end - 1}" for begin, end in rows["ranges"])
            name = f"odf:{_multibase(rows['dataset'])}/rows-{_local(ranges) or 'hidden'}-{rows['count']}"
            self.parts["entity"][name] = {
                "prov:type": {"$": "prov:Collection", "type": "prov:QUALIFIED_NAME"},
                "odfp:count": rows["count"],
                "odfp:ranges": ranges,
            }
            yield name

    def _relate(self, kind: str, members: dict[str, Any]) -> None:
        part = self.parts[kind]
        if members not in part.values():
            part[f"_:{kind}{len(part)}"] = members


def _plan_name(block: str) -> str:
    return f"odfp:query-{block}"


def _has(rows: Mapping[str, Any], dataset: str, offset: int) -> bool:
    return bool(rows["dataset"] == dataset and any(begin <= offset < end for begin, end in rows["ranges"]))


def _record_name(dataset: str, offset: int) -> str:
    return f"odf:{_multibase(dataset)}/{offset}"


def _multibase(dataset: str) -> str:
    return dataset.rpartition(":")[2]


def _local(text: str) -> str:
    """A text as a part of a name."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in text)

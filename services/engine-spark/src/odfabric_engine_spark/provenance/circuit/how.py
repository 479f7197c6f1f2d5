"""How a row was made: sums and products of rows of inputs, as JSON.

Owns the form and its bounds: so deep and with so many parts that a person can read it; the answer file has all witnesses.
"""

from __future__ import annotations

from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json
from odfabric_engine_spark.provenance.circuit.terms import NOTHING, Circuit, Leaf

_DEPTH_MAX = 6
_PARTS_MAX = 100
_TERMS_EACH_MAX = 20


def how_json(circuit: Circuit, row: int) -> str:
    """The derivation of a row of the result."""
    return canonical_json(_Writer(circuit).of_row(len(circuit.sources) - 1, row, _DEPTH_MAX))


class _Writer:
    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._left = _PARTS_MAX

    def of_row(self, number: int, row: int, depth: int) -> JsonValue:
        source = self._circuit.sources[number]
        self._left -= 1
        if isinstance(source, Leaf):
            return {"input": source.alias, "offset": int(source.offsets[row])}
        begin, end = int(source.begins[row]), int(source.ends[row])
        if depth == 0 or self._left <= 0:
            return {"operator": source.kind, "terms": end - begin, "cut": True}
        shown = min(end - begin, _TERMS_EACH_MAX, max(self._left, 1))
        terms = [self._of_term(number, term, depth - 1) for term in range(begin, begin + shown)]
        if source.kind == "result" and len(terms) == 1:
            return terms[0]
        found: dict[str, JsonValue] = {"operator": source.kind, "label": source.label, "plus": terms}
        if shown < end - begin:
            found["more"] = end - begin - shown
        return found

    def _of_term(self, number: int, term: int, depth: int) -> JsonValue:
        source = self._circuit.sources[number]
        assert not isinstance(source, Leaf)
        rows = [
            (below, int(each)) for below, each in zip(source.sources, source.ids[term], strict=True) if each != NOTHING
        ]
        parts = [self.of_row(below, each, depth) for below, each in rows]
        return parts[0] if len(parts) == 1 else {"times": parts}

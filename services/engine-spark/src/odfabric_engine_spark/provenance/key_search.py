"""Records of an input by keys.

Owns the search: segment by segment, in an index that is built when a segment is first searched for a key, and kept in the exchange folder as long as
there is room. Segments whose rows nobody recognises later, and the open one, are read each time. Invariants: the same records are found with
indexes and without; an index names the files and the key that it was made from. Source: docs/engine.md#provenance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.errors import LimitExceeded
from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.provenance.history_segments import Segment
from odfabric_engine_spark.provenance.input_history import InputHistory, Places, as_scan
from odfabric_engine_spark.provenance.segment_keys import ReadKeys, SegmentKeys, SortedKeys
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    expr_id,
    meaning_of,
    references,
)
from odfabric_engine_spark.spark.frames.result_rows import collected
from odfabric_engine_spark.state.key_hash import key_hashes

FEW = 8
"""Below one record in so many, further conditions look at these records alone."""
_FORM = "keys 1"
"""Changes when equal rows would get other hashes, or files another form."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Hashes of values, one of which the expressions over a row have together.

    The hashes ascend, each once.
    """

    expressions: tuple[Expression, ...]
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class _Key:
    """Expressions over columns of an input; `text` says what they mean."""

    names: tuple[str, ...]
    values: RowExpressions
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether rows have the values as they are."""
        return None not in self.values.places

    def hashes(self, rows: pa.Table) -> Hashes:
        """Of rows of the input that have at least its columns."""
        values = self.values.evaluate(as_scan(rows, self.values.columns))
        return key_hashes([one_array(value) for value in values], rows.num_rows)


class KeySearch:
    """Searches the records of one input, for one call."""

    def __init__(self, history: InputHistory, catalyst: Catalyst, call: EngineCall) -> None:
        self._history = history
        self._catalyst = catalyst
        self._call = call
        self._known: dict[tuple[int, ...], tuple[tuple[Expression, ...], _Key]] = {}
        self._segments: dict[tuple[str, int], SegmentKeys] = {}

    def matching(self, conditions: Sequence[Condition]) -> Places:
        """Records that meet all conditions. Raises LimitExceeded, InvalidData.

        The condition that the fewest records meet goes first. Once few are left, further conditions look at these alone.
        """
        found: Places = self._history.all
        keyed = [each for each in conditions if self._key(each.expressions).names]
        constant = [each for each in conditions if not self._key(each.expressions).names]
        if not all(map(self._is_met, constant)):
            return range(0)
        ordered = self._fewest_first(keyed)
        for at, condition in enumerate(ordered):
            if len(found) * FEW < self._history.end:
                return self._narrowed(found, ordered[at:])
            places = self._places(condition)
            found = places if isinstance(found, range) else np.intersect1d(found, places, assume_unique=True)
        return found

    def hashes(self, expressions: Sequence[Expression], places: Places) -> Hashes:
        """Hashes of values of expressions, for some records."""
        key = self._key(expressions)
        if not key.names:
            return np.repeat(self._constant(expressions), len(places))
        return self._hashes([key], places)[0]

    def hashes_of(self, expressions: Sequence[Expression], rows: pa.Table) -> Hashes:
        """The same for rows that were read, with all columns."""
        key = self._key(expressions)
        return key.hashes(rows) if key.names else np.repeat(self._constant(expressions), rows.num_rows)

    def _is_met(self, condition: Condition) -> bool:
        """Of a condition that no row decides."""
        return bool(np.isin(self._constant(condition.expressions), condition.hashes).all())

    def _narrowed(self, found: Places, conditions: Sequence[Condition]) -> Places:
        keys = [self._key(each.expressions) for each in conditions]
        met = np.ones(len(found), dtype=bool)
        for condition, hashes in zip(conditions, self._hashes(keys, found), strict=True):
            met &= np.isin(hashes, condition.hashes)
        return np.asarray(found, np.int64)[met]

    def _hashes(self, keys: Sequence[_Key], places: Places) -> list[Hashes]:
        """Hashes of several keys, computed together."""
        if not len(places):
            return [np.zeros(0, np.uint64) for _ in keys]
        rows = self._history.read(frozenset(name for key in keys for name in key.names), places)
        return [key.hashes(rows) for key in keys]

    def _fewest_first(self, conditions: Sequence[Condition]) -> list[Condition]:
        """Conditions in the order of how few records meet them, by one segment.

        Keys that rows have as they are come first if they choose few.
        """
        if len(conditions) <= 1 or not self._history.segments:
            return list(conditions)
        look = max(self._history.segments, key=lambda segment: (segment.closed, segment.rows, -segment.begin))

        def share(condition: Condition) -> float:
            keys = self._keys_of(self._key(condition.expressions), look)
            expected = len(condition.hashes) * keys.rows / max(keys.distinct, 1)
            return max(expected, keys.count(condition.hashes)) / max(keys.rows, 1)

        plain = [each for each in conditions if self._key(each.expressions).is_plain]
        computed = [each for each in conditions if not self._key(each.expressions).is_plain]
        shares = sorted(((share(each), at, each) for at, each in enumerate(plain)), key=lambda one: one[:2])
        if computed and (not shares or shares[0][0] * FEW > 1):
            more = [(share(each), at, each) for at, each in enumerate(computed, start=len(plain))]
            return [each for _, _, each in sorted([*shares, *more], key=lambda one: one[:2])]
        return [*(each for _, _, each in shares), *computed]

    def _places(self, condition: Condition) -> Longs:
        """Records that meet a condition."""
        key = self._key(condition.expressions)
        found = []
        for number, segment in enumerate(self._history.segments):
            if segment.begin < self._history.end:
                self._call.progress("find rows", number, len(self._history.segments))
                found.append(segment.begin + self._keys_of(key, segment).places(condition.hashes))
        places: Longs = np.concatenate([np.zeros(0, np.int64), *found])
        return places[places < self._history.end]

    def _keys_of(self, key: _Key, segment: Segment) -> SegmentKeys:
        known = self._segments.get((key.text, segment.begin))
        if known is None:
            known = self._segments[key.text, segment.begin] = self._found_keys(key, segment)
        return known

    def _found_keys(self, key: _Key, segment: Segment) -> SegmentKeys:
        files = self._call.kept_files
        content = segment.content(self._call.exchange) if files is not None and segment.closed else None
        if files is None or content is None:
            self._check_scanned(segment)
            return self._read_keys(key, segment)
        name = hashlib.sha256(content + key.text.encode()).digest()
        kept = files.get(name)
        found = None if kept is None else SortedKeys.read(kept, segment.rows)
        if found is None:
            found = SortedKeys.of(self._read_keys(key, segment))
            files.put(name, found.parts())
        return found

    def _read_keys(self, key: _Key, segment: Segment) -> ReadKeys:
        return ReadKeys(self._hashes([key], range(segment.begin, segment.end))[0])

    def _check_scanned(self, segment: Segment) -> None:
        """Raises LimitExceeded where too many records are read for want of an index."""
        maximum = self._call.settings.provenance_scanned_rows_max
        scanned = sum(keys.rows for keys in self._segments.values() if isinstance(keys, ReadKeys))
        if scanned + segment.rows > maximum:
            raise LimitExceeded(
                f"explaining the record looks for its keys in the {self._history.end} records of the input {self._history.alias}",
                limit="provenance_scanned_rows_max",
                maximum=maximum,
            )

    def _key(self, expressions: Sequence[Expression]) -> _Key:
        ids = tuple(map(id, expressions))
        if ids not in self._known:
            self._known[ids] = tuple(expressions), self._made_key(expressions)
        return self._known[ids][1]

    def _made_key(self, expressions: Sequence[Expression]) -> _Key:
        by_id = {expr_id(column): column for each in expressions for column in references(each)}
        columns = list(by_id.values())
        names = tuple(str(column.name()) for column in columns)
        values = RowExpressions.of(self._catalyst, columns, expressions)
        return _Key(names, values, self._text(names, values))

    def _text(self, names: Sequence[str], values: RowExpressions) -> str:
        """What a key means, whatever the ids of its columns are."""
        if None not in values.places:
            meaning = repr(values.places)
        else:
            catalyst = self._catalyst
            named = [catalyst.named(each, f"c{at}") for at, each in enumerate(values.expressions)]
            relation = catalyst.local_relation(catalyst.seq(values.columns))
            version = catalyst.session.version
            meaning = f"{version} {meaning_of(catalyst.logical.Project(catalyst.seq(named), relation))}"
        fields = [(name, str(self._history.schema.field(name).type)) for name in names]
        return repr((_FORM, fields, meaning))

    def _constant(self, expressions: Sequence[Expression]) -> Hashes:
        """The hash of values that no row decides, such as the tag of a branch of a union."""
        catalyst = self._catalyst
        named = [catalyst.named(each, f"c{at}") for at, each in enumerate(expressions)]
        plan = catalyst.logical.Project(catalyst.seq(named), catalyst.logical.OneRowRelation())
        values = collected(catalyst.data_frame(plan))
        return key_hashes([one_array(each) for each in values.columns], 1)

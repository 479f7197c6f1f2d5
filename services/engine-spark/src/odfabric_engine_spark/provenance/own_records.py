"""Which records of a pool can matter for one record of the output.

The rows of a page of records are found together; a search for the witnesses or the trigger of one of them needs its own rows only. Owns their
choice, by the rules by which the pool was found, for the values of the record alone. Invariant: they are the rows that would be found for
the record alone, so what is said of it does not depend on the page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Hashes, Longs, Mask
from odfabric_engine_spark.provenance.conditions import Applied, Rules, shown_by
from odfabric_engine_spark.provenance.input_history import Places
from odfabric_engine_spark.provenance.key_search import Condition
from odfabric_engine_spark.provenance.past_rows import PastRows
from odfabric_engine_spark.provenance.states import Pool
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression


class OwnRecords:
    """The records of a pool that can matter, by position of the record of the output.

    `together` are the rules as they were applied to all records.
    """

    def __init__(self, rules: Rules, together: Applied, pool: Pool, past: PastRows, records: pa.Table) -> None:
        self._rules = rules
        self._together = together
        self._pool = pool
        self._shown = shown_by(rules, records)
        self._rows = _PoolRecords(pool, past)

    def mask(self, record: int) -> Mask:
        """Those of a record.

        A record of the pool is one of them if it matters for some use.
        """
        own = np.zeros(self._pool.count, dtype=bool)
        shown = {name: hashes[record : record + 1] for name, hashes in self._shown.items()}
        applied = self._together.of_record(shown, self._rows)
        for use, (alias, _) in self._pool.uses.items():
            found = self._rows.matching(alias, applied.conditions(self._rules.by_use[use]))
            own[self._pool.begin(alias) + np.asarray(found, np.int64)] = True
        return own


class _PoolRecords:
    """The known records of a pool by their positions.

    Values are computed once for all records of the output.
    """

    def __init__(self, pool: Pool, past: PastRows) -> None:
        self._pool = pool
        self._past = past
        self._hashes: dict[tuple[str, tuple[int, ...]], tuple[tuple[Expression, ...], Hashes]] = {}

    def matching(self, alias: str, conditions: Sequence[Condition]) -> Places:
        met = np.ones(len(self._pool.known[alias].offsets), dtype=bool)
        for each in conditions:
            met &= np.isin(self._of_all(alias, each.expressions), each.hashes)
        found: Longs = np.flatnonzero(met)
        return found

    def keys(self, alias: str, expressions: Sequence[Expression], chosen: Places) -> Hashes:
        return self._of_all(alias, expressions)[np.asarray(chosen, np.int64)]

    def _of_all(self, alias: str, expressions: Sequence[Expression]) -> Hashes:
        key = alias, tuple(map(id, expressions))
        if key not in self._hashes:
            hashes = self._past.keys_of_rows(alias, expressions, self._pool.known[alias].rows)
            self._hashes[key] = tuple(expressions), hashes
        return self._hashes[key][1]

"""Watches which rows of a key plans see, and compares with reading all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.operators.keyed_recompute import recompute_plan
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.partial_read import ChosenRows, StoredOrder
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import distinct
from tests.services.engine.laws.law_check import net_rows
from tests.services.engine.transforming import A, Derivative, Input, R


class PartialReadWatch:
    """Watches partial reads of one class; they choose rows however few they omit.

    `found` says for each stage whether it has one, `by_few` for each time that rows were chosen whether there was a key of which not all
    were, `doubtful` whether there was one of which all were.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, maker: str, kind: type[StoredOrder]) -> None:
        """`maker` is the function by which `recompute_plan` makes them."""
        self._monkeypatch = monkeypatch
        self._maker = maker
        self.found: list[bool] = []
        self.by_few: list[bool] = []
        self.doubtful: list[bool] = []
        monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 0)
        make: Callable[..., Any] = getattr(recompute_plan, maker)
        choose: Callable[..., ChosenRows] = kind.chosen  # type: ignore[attr-defined]

        def making(*given: Any) -> Any:
            made = make(*given)
            self.found.append(made is not None)
            return made

        def choosing(made: Any, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
            chosen = choose(made, state, new_hashes, new)
            self.by_few.append(len(chosen.doubtful) < len(distinct(new_hashes)))
            self.doubtful.append(len(chosen.doubtful) > 0)
            return chosen

        monkeypatch.setattr(recompute_plan, maker, making)
        monkeypatch.setattr(kind, "chosen", choosing)

    @contextmanager
    def by_all_rows(self) -> Iterator[None]:
        """Plans that are made within have no partial read."""
        with self._monkeypatch.context() as patched:
            patched.setattr(recompute_plan, self._maker, lambda *_: None)
            yield

    def held(self, query: str, source: Input, call: EngineCall, history: Iterable[object]) -> list[tuple[Any, ...]]:
        """Compare a derivative with one that reads all rows, step by step; last records."""
        by_few = Derivative(query, [source], replace(call, plans=KeptPlans()))
        by_all = Derivative(query, [source], replace(call, plans=KeptPlans()), name="all")
        records: list[tuple[Any, ...]] = []
        for _ in history:
            records = by_few.pull().records
            with self.by_all_rows():
                expected = by_all.pull().records
            assert net_rows(records) == net_rows(expected)
            assert len(records) == len(expected)
        return records


def history(
    source: Input, rng: Random, row: Callable[[Random], tuple[Any, ...]], sizes: Iterable[tuple[int, int]]
) -> Iterator[None]:
    """Blocks of so many new rows, and of at most so many withdrawn ones."""
    there: list[tuple[Any, ...]] = []
    for rows, most in sizes:
        new = [row(rng) for _ in range(rows)]
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(len(there), most))]
        there += new
        source.add([*((A, *each) for each in new), *((R, *each) for each in gone)])
        yield

"""What merging must give, in plain Python: the judge of unwritten expectations.

Written from the rules (specification, "Merge Strategies"; ADR 0034), not from the engine, and slow on purpose. Rows are dicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


class Refusal(Exception):
    """The input is refused; `rule` says why."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


def project(prev: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """State of a changelog by offset: each key's last row unless it is a retraction."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in prev:
        last[_key(row, keys)] = row
    return [row for row in last.values() if row["op"] != 1]


def merge(
    strategy: Row, columns: Sequence[str], new: Sequence[Row], prev: Sequence[Row] | None, event_time: str
) -> list[Row]:
    """Changelog rows in the order of the strategy. Raises Refusal."""
    keys = strategy.get("primaryKey", [])
    if strategy["kind"] == "Append":
        return _by_time([{"op": 0, **row} for row in new], event_time)
    _check_keys(keys, columns)
    if strategy["kind"] == "ChangelogStream":
        return _changelog(columns, new, prev, keys, event_time)
    if strategy["kind"] == "UpsertStream":
        return _upsert(columns, new, prev, keys, event_time)
    fresh = _one_for_each_key(new, keys)
    if strategy["kind"] == "Ledger":
        seen = {_key(row, keys) for row in prev or ()}
        return _by_time([{"op": 0, **row} for row in fresh if _key(row, keys) not in seen], event_time)
    return _snapshot(strategy, columns, fresh, prev, event_time)


def _check_keys(keys: Sequence[str], columns: Sequence[str]) -> None:
    if not keys or any(key not in columns for key in keys):
        raise Refusal("BadInputSchema")


def _one_for_each_key(new: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for row in new:
        if any(row[key] is None for key in keys):
            raise Refusal("null key")
        first = found.setdefault(_key(row, keys), row)
        if first != row:
            raise Refusal("duplicate key")
    return list(found.values())


def _snapshot(
    strategy: Row, columns: Sequence[str], fresh: Sequence[Row], prev: Sequence[Row] | None, event_time: str
) -> list[Row]:
    keys = strategy["primaryKey"]
    compared = strategy.get("compareColumns") or [name for name in columns if name not in keys]
    if any(name not in columns for name in compared):
        raise Refusal("BadInputSchema")
    state = {_key(row, keys): row for row in project(prev or (), keys)}
    given = {_key(row, keys): row for row in fresh}
    result: list[Row] = []
    for key, old in state.items():
        row = given.get(key)
        if row is None:
            result.append({**old, "op": 1})
        elif any(row[name] != old[name] and not (name == event_time and row[name] is None) for name in compared):
            result += [{**old, "op": 2}, {**row, "op": 3}]
    result += [{"op": 0, **row} for key, row in given.items() if key not in state]
    return sorted(result, key=lambda row: (*(_nulls_first(row[name]) for name in keys), row["op"]))


_BEFORE = {0: {None, 1}, 1: {None, 0, 3}, 2: {None, 0, 3}, 3: {2}}
"""What the change of a key before a change in a batch may be."""


def _changelog(
    columns: Sequence[str], new: Sequence[Row], prev: Sequence[Row] | None, keys: Sequence[str], event_time: str
) -> list[Row]:
    if "op" not in columns:
        raise Refusal("BadInputSchema")
    state = {_key(row, keys): row for row in project(prev or (), keys)}
    last: dict[tuple[Any, ...], Row] = {}
    result = []
    for row in new:
        key, op = _given(row, keys), row["op"]
        if (last[key]["op"] if key in last else None) not in _BEFORE[op]:
            raise Refusal("out of turn")
        withdrawn = last.get(key, state.get(key, {})) if op in (1, 2) else {}
        if row.get(event_time) is None and withdrawn.get(event_time) is not None:
            row = {**row, event_time: withdrawn[event_time]}
        last[key] = row
        result.append(row)
    if any(row["op"] == 2 for row in last.values()):
        raise Refusal("half a correction")
    return sorted(result, key=lambda row: tuple(_nulls_first(row[name]) for name in keys))


def _upsert(
    columns: Sequence[str], new: Sequence[Row], prev: Sequence[Row] | None, keys: Sequence[str], event_time: str
) -> list[Row]:
    state = {_key(row, keys): row for row in project(prev or (), keys)}
    compared = [name for name in columns if name not in keys and name != "op"]
    result: list[Row] = []
    for key, row in {_given(row, keys): row for row in new}.items():
        old = state.get(key)
        if row.get("op") == 1:
            result += [{**old, "op": 1}] if old is not None else []
        elif old is None:
            result.append({**row, "op": 0})
        elif any(row[name] != old[name] and not (name == event_time and row[name] is None) for name in compared):
            result += [{**old, "op": 2}, {**row, "op": 3}]
    return sorted(result, key=lambda row: (*(_nulls_first(row[name]) for name in keys), row["op"]))


def _given(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    if any(row[key] is None for key in keys):
        raise Refusal("null key")
    if row.get("op", 0) not in _BEFORE:
        raise Refusal("no kind of change")
    return _key(row, keys)


def _by_time(rows: list[Row], event_time: str) -> list[Row]:
    return sorted(rows, key=lambda row: _nulls_first(row.get(event_time)))


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _key(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)

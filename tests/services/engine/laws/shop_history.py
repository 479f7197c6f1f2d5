"""A shop with many vendors: tables that grow, are corrected and shrink.

They are for queries as businesses ask them.

Owns seven tables tied by keys, and their changelogs. Invariant: changelogs are well-formed, references may point to rows that are
not there yet, no longer, or never, and the last block touches few rows. Not here: queries (`shop_queries`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from tests.services.engine.laws.grammar.general_cases import DAY, Block, Row, Table
from tests.services.engine.transforming import CF, CT, A, R

TABLES = {
    table.alias: table
    for table in (
        Table("country", {"code": "string", "zone": "string"}),
        Table("vendor", {"vendor_no": "int", "code": "string"}),
        Table("buyer", {"buyer_no": "int", "code": "string", "segment": "string", "credit": "decimal"}),
        Table("article", {"article_no": "int", "brand": "string", "kind": "string", "weight": "int"}),
        Table("offer", {"article_no": "int", "vendor_no": "int", "cost": "decimal", "stock": "int"}),
        Table("purchase", {"purchase_no": "int", "buyer_no": "int", "placed": "date", "state": "string"}),
        Table(
            "item",
            {
                "purchase_no": "int",
                "line": "int",
                "article_no": "int",
                "vendor_no": "int",
                "quantity": "int",
                "amount": "decimal",
                "promised": "date",
                "arrived": "date",
            },
        ),
    )
}
KEYS = frozenset({"code", "vendor_no", "buyer_no", "article_no", "purchase_no"})
BLOCKS = 4
"""Blocks of each table; the tables grow together."""

_FIRST_DAY = dt.date(2024, 1, 1)
_COUNTRIES = {"FR": "west", "PT": "west", "NO": "north", "FI": "north", "GR": "south", "MT": "south"}
_BUYERS, _VENDORS, _ARTICLES, _PURCHASES = 24, 9, 20, 90
_SHARES = (0.6, 0.25, 0.15, 0.0)
"""How much of a table a block brings."""


@dataclass
class _Growing:
    """A table on its way: what it holds, what it held, and what has been said of it."""

    present: list[Row]
    gone: list[Row] = field(default_factory=list)
    said: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.present.append(row)
        self.said.append((A, *row))

    def withdraw(self, row: Row) -> None:
        self.present.remove(row)
        self.gone.append(row)
        self.said.append((R, *row))

    def correct(self, old: Row, new: Row) -> None:
        if old == new:
            return
        self.present[self.present.index(old)] = new
        self.said += [(CF, *old), (CT, *new)]


def shop_blocks(number: int) -> dict[str, tuple[Block, ...]]:
    """The blocks of all tables; the same number gives the same ones."""
    rows = _Rows(Random(f"rows {number}")).by_table()
    return {alias: _blocks(Random(f"{alias} {number}"), alias, rows[alias]) for alias in TABLES}


class _Rows:
    """What would be in the tables if nothing were ever taken back."""

    def __init__(self, r: Random) -> None:
        self._r = r

    def by_table(self) -> Mapping[str, list[Row]]:
        r, country = self._r, list(_COUNTRIES)
        purchases = [self._purchase(number) for number in range(_PURCHASES)]
        return {
            "country": [(0, code, zone) for code, zone in _COUNTRIES.items()],
            "vendor": [(self._moment(), number, r.choice([*country, None])) for number in range(_VENDORS)],
            "buyer": [self._buyer(number, country) for number in range(_BUYERS)],
            "article": [
                (self._moment(), number, r.choice("ABC"), r.choice(["lamp", "desk", "shelf"]), r.randint(1, 30))
                for number in range(_ARTICLES)
            ],
            "offer": [
                (self._moment(), article, vendor, self._money(5, 60), r.randint(0, 40))
                for article in range(_ARTICLES)
                for vendor in r.sample(range(_VENDORS), 3)
            ],
            "purchase": purchases,
            "item": [
                self._item(purchase, position) for purchase in purchases for position in range(1, r.randint(1, 5) + 1)
            ],
        }

    def _moment(self) -> int:
        return _millis(_FIRST_DAY) + self._r.randrange(700) * DAY // 2

    def _money(self, least: int, most: int) -> Decimal:
        return Decimal(self._r.randrange(least * 100, most * 100)) / 100

    def _buyer(self, number: int, country: list[str]) -> Row:
        r = self._r
        segment = r.choice(["home", "office", "garden", None])
        return (self._moment(), number, r.choice(country), segment, self._money(-100, 900))

    def _purchase(self, number: int) -> Row:
        r = self._r
        placed = _FIRST_DAY + dt.timedelta(days=r.randrange(730))
        # Some buyers never buy, some are not known.
        return (
            _millis(placed) + number,
            number,
            r.randrange(4, _BUYERS + 2),
            placed,
            r.choice(["open", "sent", "paid"]),
        )

    def _item(self, purchase: Row, position: int) -> Row:
        r = self._r
        _, number, _, placed, _ = purchase
        promised = placed + dt.timedelta(days=r.randint(2, 20))
        arrived = None if r.random() < 0.1 else promised + dt.timedelta(days=r.randint(-6, 6))
        bought = (r.randrange(_ARTICLES), r.randrange(_VENDORS), r.randint(1, 12), self._money(5, 300))
        return (_millis(placed) + position, number, position, *bought, promised, arrived)


def _millis(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days * DAY


def _blocks(r: Random, alias: str, rows: list[Row]) -> tuple[Block, ...]:
    """Rows in no order; from block to block more is taken back."""
    coming = r.sample(rows, len(rows))
    columns = list(TABLES[alias].columns)
    table = _Growing([])
    found: list[Block] = []
    for number, share in enumerate(_SHARES):
        for _ in range(round(share * len(rows))):
            if coming:
                table.add(coming.pop())
        _CHANGES[number](r, columns, table, rows)
        found.append(Block(tuple(table.said), None, 1000 * number))
        table.said = []
    return tuple(found)


def _none(r: Random, columns: list[str], table: _Growing, rows: list[Row]) -> None:
    """The first block only brings rows."""


def _some(r: Random, columns: list[str], table: _Growing, rows: list[Row]) -> None:
    """Some rows are taken back, some corrected in any column, keys too."""
    some = max(1, len(rows) // 20)
    for row in r.sample(table.present, some):
        table.withdraw(row)
    _few(r, columns, table, rows, count=some)


def _whole_keys(r: Random, columns: list[str], table: _Growing, rows: list[Row]) -> None:
    """As before, and all rows of up to two values of each key are taken back."""
    _some(r, columns, table, rows)
    for at in (at for at, column in enumerate(columns, 1) if column in KEYS):
        known = sorted({row[at] for row in table.present if row[at] is not None})
        chosen = r.sample(known, min(2, len(known) // 3))
        for row in [row for row in table.present if row[at] in chosen]:
            table.withdraw(row)


def _back_again(r: Random, columns: list[str], table: _Growing, rows: list[Row]) -> None:
    """Half of what went comes back, and more is changed."""
    for row in table.gone[::2]:
        table.add(row)
    _some(r, columns, table, rows)


def _few(r: Random, columns: list[str], table: _Growing, rows: list[Row], *, count: int = 3) -> None:
    """Some values are others."""
    for old in r.sample(table.present, count):
        at = r.randrange(len(old))
        new: list[Any] = list(old)
        new[at] = r.choice(rows)[at]
        table.correct(old, tuple(new))


_CHANGES: tuple[Callable[[Random, list[str], _Growing, list[Row]], None], ...] = (
    _none,
    _whole_keys,
    _back_again,
    _few,
)

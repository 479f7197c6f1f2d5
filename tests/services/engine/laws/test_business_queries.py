"""Business queries over tables tied by keys equal plain results at every step."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

from tests.services.engine.laws.general_check import Tally, check_general
from tests.services.engine.laws.grammar.general_cases import GeneralCase, GeneralQuery
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shop_history import BLOCKS, TABLES, shop_blocks
from tests.services.engine.laws.shop_queries import QUERIES

pytestmark = pytest.mark.spark

AT_ONCE = 2
"""Queries that run side by side: one alone leaves half of two cores idle."""
HISTORY = shop_blocks(3)
"""The last block changes a sum that all rows of "best vendors" show."""


def test_a_shop_reads_what_plain_queries_say(lab: Lab) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = [found for found in pool.map(_problem, QUERIES, repeat(lab)) if found is not None]
    assert not problems, "\n\n".join([f"{len(problems)} of {len(QUERIES)} queries", *problems])


def _problem(name: str, lab: Lab) -> str | None:
    """What is wrong with a query, after whichever transaction."""
    try:
        done = check_general(_case(name), own_lab(lab), Tally(), thorough=False)
        given = [len(each.records) for each in done.transactions]
    except Exception as error:  # noqa: BLE001 - one broken query must not hide the others
        return f"{name}: {type(error).__name__}: {error}"
    return f"{name}: transactions gave {given} records" if not all(given[:-1]) else None


def _case(name: str) -> GeneralCase:
    text = QUERIES[name]
    tables = tuple(table for alias, table in TABLES.items() if re.search(rf"\b{alias}\b", text))
    return GeneralCase(
        query=GeneralQuery(name, text, (name,)),
        tables=tables,
        blocks=tuple(HISTORY[table.alias] for table in tables),
        cuts=tuple((number + 1,) * len(tables) for number in range(BLOCKS)),
        well_formed=True,
        punctual=False,
        sizes={},
    )

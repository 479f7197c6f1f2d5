"""How many rows of its table a query reads at most.

A guess from the text that is only made where it is certain: columns of one table, in no order, with nothing that looks at several rows.
Whatever is not recognised reads all rows. Source: docs/reference/time.md.
"""

from __future__ import annotations

import re

from odfabric.formats.engine_messages.table_calls import calls_in

_CALL = "call"
_COLUMNS = r"(?:(?!\bfrom\b)[^()'\"/;-])+"
"""No bracket: neither an aggregate, a window nor a subquery; no text, no comment."""
_PLAIN = re.compile(
    rf"select (?!distinct\b|all\b){_COLUMNS} from (?P<source>[`\"\w./-]+)"
    r"(?: (?:as )?\w+)?(?: limit (?P<limit>\d{1,18}))? ?;?",
    re.IGNORECASE | re.ASCII,
)


def first_rows(sql: str, most: int) -> int | None:
    """The number of rows, where `most` rows of the result are wanted.

    None: all of them.
    """
    calls = list(calls_in(sql))
    if len(calls) > 1:
        return None
    for each in calls:
        sql = f"{sql[: each.begin]}{_CALL}{sql[each.end :]}"
    # One blank between words: a pattern would try each way to share out a long run of them.
    found = _PLAIN.fullmatch(" ".join(sql.split()))
    if found is None or (calls and found["source"] != _CALL):
        return None
    return most if found["limit"] is None else min(most, int(found["limit"]))

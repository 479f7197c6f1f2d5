"""What people type stays a name or a value, whatever it is."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import expressions

from odfabric.usecases.queries.row_query import COMPARED, RowFilter, RowOrder, profile_query, rows_query

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(names, names, values, st.sampled_from(COMPARED))
def test_names_and_values_stay_what_they_are(dataset: str, column: str, value: str, operator: str) -> None:
    sql = rows_query(dataset, RowFilter(column, "BIGINT", operator, value), RowOrder(column, descending=True))
    (statement,) = sqlglot.parse(sql, dialect="spark")
    assert isinstance(statement, expressions.Select)
    (table,) = statement.find_all(expressions.Table)
    assert table.name == dataset
    assert {each.name for each in statement.find_all(expressions.Column)} == {column}
    literals = {each.this for each in statement.find_all(expressions.Literal)}
    assert literals == (set() if operator in ("null", "not-null") else {value})


ANSWERS_OF_A_TYPE = {"ARRAY<INT>": 1, "BINARY": 1, "STRING": 4, "TIMESTAMP": 4, "INT": 5, "DECIMAL(10,2)": 5}


@given(names, st.lists(st.tuples(names, st.sampled_from([*ANSWERS_OF_A_TYPE])), max_size=5))
def test_a_profile_asks_for_each_column(dataset: str, columns: list[tuple[str, str]]) -> None:
    (statement,) = sqlglot.parse(profile_query(dataset, columns), dialect="spark")
    assert isinstance(statement, expressions.Select)
    assert len(statement.expressions) == 1 + sum(ANSWERS_OF_A_TYPE[sql_type] for _, sql_type in columns)
    assert {each.name for each in statement.find_all(expressions.Column)} == {name for name, _ in columns}


@pytest.mark.parametrize(
    ("operator", "type_", "expected"),
    [
        ("=", "STRING", "`city` = 'O\\'Fallon'"),
        ("!=", "DATE", "`city` <> CAST('O\\'Fallon' AS DATE)"),
        ("contains", "STRING", "contains(lower(CAST(`city` AS STRING)), lower('O\\'Fallon'))"),
        ("null", "INT", "`city` IS NULL"),
    ],
)
def test_each_operator_has_its_sql(operator: str, type_: str, expected: str) -> None:
    found = rows_query("a/b", RowFilter("city", type_, operator, "O'Fallon"), None)
    assert found == f"SELECT * FROM `a/b`\nWHERE {expected}"

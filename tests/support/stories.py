"""Datasets that stories of acceptance share.

Every story gives them names of its own.
"""

from __future__ import annotations

READINGS_FIELDS = """
        fields:
        - {name: event_time, type: Timestamp}
        - {name: city, type: String}
        - {name: value, type: {kind: Option, inner: Int64}}
"""


def root(name: str, *, read: str = "kind: NdJson", merge: str = "{kind: Append}") -> str:
    """A root dataset with a push source.

    `read` is the first lines of the read step, by their own indent.
    """
    return f"""\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      {read}
      schema:{READINGS_FIELDS}
    merge: {merge}
"""


def polled(name: str, *, fetch: str, prepare: str = "[]", merge: str = "{kind: Append}") -> str:
    """A root dataset that polls CSV files with a header."""
    return f"""\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {fetch}
    prepare: {prepare}
    read:
      kind: Csv
      header: true
      schema:{READINGS_FIELDS}
    merge: {merge}
"""


def derivative(name: str, *, of: str, query: str) -> str:
    """A derivative dataset of one input; the query is on one line."""
    return derivative_of(name, inputs=f"{{datasetRef: {of}}}", query=query)


def derivative_of(name: str, *, inputs: str, query: str) -> str:
    """A derivative dataset of several inputs, as YAML; the query is on one line."""
    return f"""\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{inputs}]
    transform:
      kind: Sql
      engine: spark
      query: |
        {query}
"""


def hourly(name: str, *, of: str) -> str:
    """Rows by city and hour."""
    query = (
        "SELECT window(event_time, '1 hour').start AS event_time, city, count(*) AS n, sum(value) AS total "
        f"FROM `{of}` GROUP BY window(event_time, '1 hour'), city"
    )
    return derivative(name, of=of, query=query)


def reading(minute: int, city: str = "A", value: int | None = 1) -> dict[str, object]:
    """A row; minutes count from the first of January 2026."""
    return {"event_time": f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z", "city": city, "value": value}


CSV_HEADER = "event_time,city,value\n"


def csv(*rows: dict[str, object]) -> str:
    """Rows as CSV with a header."""
    return CSV_HEADER + "".join(f"{row['event_time']},{row['city']},{row['value']}\n" for row in rows)

"""Functions of other engines: what Spark SQL has for them.

Owns the names that people bring along, and the hint for each. Invariant: no name here is one that Spark has, so a hint is only reported
where the name says nothing. Not here: whole queries of another engine (`dialects`), other forms of grammar (`syntax_hints`).
"""

from __future__ import annotations

from collections.abc import Mapping

_TUMBLE = "group by window(event_time, '1 hour') and select window.start as event_time; window.end is the end"
_HOP = "group by window(event_time, '1 hour', '10 minutes'), first the size, then the slide, and select window.start as event_time"
_SESSION = "group by session_window(event_time, '30 minutes') and select session_window.start as event_time"
_CUMULATE = (
    "write sum(..) over (partition by date_trunc('day', event_time) order by event_time) for what grows within a day"
)
_LAST_INSTANT = "window.end - interval '1' millisecond, with group by window(event_time, '1 hour')"
_OF_ROWS = "collect_list, sorted: sort_array(collect_list(value))"
_JSON = "get_json_object(text, '$.member')"
_CAST = "cast(value as type), or try_cast(..), which gives null for what is none"
_PARSE_TIME = "to_timestamp(text, 'yyyy-MM-dd HH:mm:ss')"
_FORMAT_TIME = "date_format(time, 'yyyy-MM-dd')"
_TIME_STEPS = "timestampadd(HOUR, 1, time), or time + interval '1' hour"
_TIME_SPAN = "timestampdiff(HOUR, earlier, later)"
_CLOCK = "a query does not know when it runs: use event_time, or write the time as a literal"
_RANDOM = "a query has no chance: use a hash of columns, such as xxhash64(..) or sha2(..)"
_EXPLODE = "LATERAL VIEW explode(list) AS member"
_DISTINCT = "count(DISTINCT value)"
_PERCENTILE = "percentile(value, 0.5)"
_IF = "if(condition, then, else)"
_INPUTS = "a query reads its inputs by their alias: push the rows of files into a dataset first"
_TOP = (
    "there is no TOP: select * from (select .. from .. order by .. limit 10), or number the rows by row_number() over (partition by .. "
    "order by ..)"
)


def _windows() -> dict[str, str]:
    """What gives and bounds windows in Flink, and what does so in Spark."""
    kinds = {"tumble": (_TUMBLE, "window"), "hop": (_HOP, "window"), "session": (_SESSION, "session_window")}
    found = {"cumulate": _CUMULATE}
    for kind, (hint, column) in kinds.items():
        found |= {kind: hint, f"{kind}_rowtime": _LAST_INSTANT, f"{kind}_proctime": _CLOCK}
        found |= {f"{kind}_{bound}": f"{column}.{bound}: {hint}" for bound in ("start", "end")}
    return found


ELSEWHERE: Mapping[str, str] = {
    **_windows(),
    "age": _TIME_SPAN,
    "approx_distinct": _DISTINCT,
    "approx_quantiles": _PERCENTILE,
    "arbitrary": "max(value), or max_by(value, event_time) for the latest",
    "arg_max": "max_by(value, by)",
    "arg_min": "min_by(value, by)",
    "argmax": "max_by(value, by)",
    "argmin": "min_by(value, by)",
    "array_length": "size(list)",
    "array_to_string": "array_join(list, ',')",
    "charindex": "instr(text, 'part'), or locate('part', text)",
    "convert": _CAST,
    "count_distinct": _DISTINCT,
    "countif": "count_if(condition)",
    "date_bin": "window(event_time, '15 minutes')",
    "date_parse": _PARSE_TIME,
    "datename": _FORMAT_TIME,
    "datetime": _CAST,
    "datetime_add": _TIME_STEPS,
    "datetime_diff": _TIME_SPAN,
    "datetime_trunc": "date_trunc('DAY', time)",
    "descriptor": "the column itself",
    "ends_with": "endswith(text, 'part')",
    "eomonth": "last_day(date)",
    "epoch": "unix_seconds(time)",
    "epoch_ms": "unix_millis(time), or timestamp_millis(number) the other way round",
    "format_datetime": _FORMAT_TIME,
    "gen_random_uuid": _RANDOM,
    **dict.fromkeys(
        ("as_at", "as_of", "changes", "to_table"),
        "a transform reads all records of its inputs as they come: ask for moments in queries, outside of transforms",
    ),
    "generate_series": "explode(sequence(first, last, step))",
    "generate_uuid": _RANDOM,
    "getdate": _CLOCK,
    "getutcdate": _CLOCK,
    "group_concat": "listagg(text, ',') WITHIN GROUP (ORDER BY text)",
    "iff": _IF,
    "ifelse": _IF,
    "iif": _IF,
    "json_array_elements": "explode(from_json(text, 'array<string>'))",
    "json_build_object": "to_json(named_struct('name', value, ..))",
    "json_extract": _JSON,
    "json_extract_path_text": _JSON,
    "json_extract_scalar": _JSON,
    "json_extract_string": _JSON,
    "json_object": "to_json(named_struct('name', value, ..))",
    "json_query": _JSON,
    "json_value": _JSON,
    "list": _OF_ROWS,
    "list_contains": "array_contains(list, value)",
    "map_agg": "map_from_entries(sort_array(collect_list(struct(key, value))))",
    "newid": _RANDOM,
    "on": "there is no DISTINCT ON: number the rows, QUALIFY row_number() OVER (PARTITION BY .. ORDER BY ..) = 1",
    "parse_datetime": _PARSE_TIME,
    "quantile": _PERCENTILE,
    "quantile_cont": _PERCENTILE,
    "regexp_matches": "regexp_like(text, 'pattern')",
    "row": "struct(..), or named_struct('name', value, ..)",
    "row_to_json": "to_json(struct(..))",
    "safe_cast": "try_cast(value AS type)",
    "safe_divide": "try_divide(a, b)",
    "sha256": "sha2(value, 256)",
    "starts_with": "startswith(text, 'part')",
    "str_to_date": _PARSE_TIME,
    "strftime": _FORMAT_TIME,
    "string_split": "split(text, ',')",
    "string_to_array": "split(text, ',')",
    "strpos": "instr(text, 'part')",
    "strptime": _PARSE_TIME,
    "struct_pack": "named_struct('name', value, ..)",
    "sumif": "sum(value) FILTER (WHERE condition)",
    "sysdate": _CLOCK,
    "time_slice": "window(event_time, '1 hour')",
    "timestamp_add": _TIME_STEPS,
    "timestamp_diff": _TIME_SPAN,
    "timestamp_trunc": "date_trunc('DAY', time)",
    "to_datetime": _PARSE_TIME,
    "to_unixtime": "unix_seconds(time)",
    "today": _CLOCK,
    "top": _TOP,
    "uniq": _DISTINCT,
    "uniqexact": _DISTINCT,
    "unnest": _EXPLODE,
    "why": "ask why records are there in queries, outside of transforms",
}
"""Names of functions that other engines have, in lower case, and what Spark has."""

TABLES_OF_WINDOWS = ("tumble", "hop", "session", "cumulate")
"""Flink's functions that give rows with their windows."""

TABLES_ELSEWHERE: Mapping[str, str] = {
    **{name: ELSEWHERE[name] for name in TABLES_OF_WINDOWS},
    **dict.fromkeys(("read_csv", "read_files", "read_json", "read_ndjson", "read_parquet", "read_text"), _INPUTS),
    **dict.fromkeys(("flatten", "unnest"), _EXPLODE),
    **dict.fromkeys(
        ("variant_explode", "variant_explode_outer"),
        "write explode(cast(try_parse_json(text):list as array<string>))",
    ),
    **dict.fromkeys(
        ("as_at", "as_of", "changes", "to_table"),
        "a transform reads all records of its inputs as they come: ask for moments in queries, outside of transforms",
    ),
    "generate_series": "range(first, last), or explode(sequence(first, last, step))",
    "table": "name the table itself",
}
"""Table functions that other engines have, or that are not allowed, and what to write instead."""

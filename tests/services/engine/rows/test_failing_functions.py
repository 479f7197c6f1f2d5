"""A function's failure on a wrong argument is a data error, in any Spark form."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

CALLS = [
    "element_at(array(1), i)",
    "element_at(array(1), i + 7)",
    "to_number(s, '999')",
    "to_timestamp(s)",
    "from_utc_timestamp(event_time, s)",
    "make_date(2020, i, 1)",
    "next_day(cast(event_time as date), s)",
    "url_decode('%' || s)",
    "parse_url('{' || s, 'HOST')",
    "cast(parse_json(s) as string)",
    "try_variant_get(parse_json(s), '$.a', 'int')",
    "cast(variant_get(parse_json('{}'), s, 'int') as int)",
    "from_json(s, 'a INT', map('mode', 'FAILFAST')).a",
    "split(s, s)",
    "regexp_replace(s, s, 'x')",
    "format_string(concat('%d', left(s, 0)), s)",
    "printf(s, 1)",
    "sequence(1, 5, i)",
    "map_from_arrays(array(1), array(i, i))[1]",
    "to_json(map(i, 1, 0, 2))",
    "aes_decrypt(cast(s as binary), '1234567890abcdef', 'ECB', 'PKCS')",
    "cast(3000000000 + i as int)",
    "decode(cast(s as binary), s)",
    "cast(raise_error(s) as int)",
    "1 / i",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_told_as_wrong_data(engine_call: EngineCall, call: str) -> None:
    schema = input_schema(pa.field("s", pa.string()), pa.field("i", pa.int32()))
    one = Input(engine_call.exchange.root, "a", schema).add([(A, 0, "[(%", 0)])
    with pytest.raises(InvalidData) as caught:
        Derivative(f"select event_time, {call} as x from a", [one], engine_call).pull()
    assert caught.value.hint
    assert "\tat " not in caught.value.message
    assert not list(engine_call.exchange.root.glob("out-*")), "something was left of it"


def test_a_pattern_of_times_that_spark_does_not_have_is_named(engine_call: EngineCall) -> None:
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("s", pa.string()))).add([(A, 0, "YYYY-MM-DD")])
    with pytest.raises(InvalidData, match=r"^Fail to recognize 'YYYY-MM-DD' pattern") as caught:
        Derivative("select event_time, to_char(event_time, s) x from a", [one], engine_call).pull()
    assert "yyyy-MM-dd" in (caught.value.hint or "")


@pytest.mark.parametrize("call", ["cast(parse_json(s) as string)", "from_json(s, 'a INT', map('mode', 'FAILFAST')).a"])
def test_what_cannot_be_read_is_told_with_what_reads_it_as_null(engine_call: EngineCall, call: str) -> None:
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("s", pa.string()))).add([(A, 0, "[(%")])
    with pytest.raises(InvalidData) as caught:
        Derivative(f"select event_time, {call} as x from a", [one], engine_call).pull()
    assert "try_parse_json(..)" in (caught.value.hint or "")


@pytest.mark.parametrize("call", ["str_to_map(s)['a']", "map_concat(map(left(s, 1), 0), map(left(s, 1), 1))['a']"])
def test_a_key_that_a_map_has_twice_is_told_with_what_takes_one_of_them(engine_call: EngineCall, call: str) -> None:
    one = Input(engine_call.exchange.root, "a", input_schema(pa.field("s", pa.string()))).add([(A, 0, "a:1,b:2,a:3")])
    with pytest.raises(InvalidData, match=r"^Duplicate map key a") as caught:
        Derivative(f"select event_time, {call} as x from a", [one], engine_call).pull()
    assert "(^|,)key:([^,]*)" in (caught.value.hint or "")
    instead = (
        "regexp_extract(s, '(^|,)b:([^,]*)', 2) x, "
        "map_concat(map_filter(m, (k, v) -> not map_contains_key(n, k)), n)['a'] y"
    )
    maps = "(select event_time, s, map('a', 1, 'b', 2) m, map('a', 3) n from a)"
    told = Derivative(f"select event_time, {instead} from {maps}", [one], engine_call).pull().records
    assert [row[-2:] for row in told] == [("2", 3)]

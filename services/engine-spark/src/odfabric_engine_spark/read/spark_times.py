"""Dates and timestamps in texts, as Spark expressions.

Owns the way from a format to columns of Spark; what a format admits is `odfabric.formats.time_formats`, and a test holds both
together.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from odfabric.formats.time_formats import CENTURY_TURN, MONTHS, RFC3339, TimeFormat

_NOON = 12


def spark_timestamp(form: TimeFormat, text: Column) -> Column:
    """As `TimeFormat.millis`: a timestamp of whole milliseconds, null if the text does not fit."""
    fits = _fits(form, text)
    if form.text == RFC3339:
        return F.when(fits, whole_millis(F.upper(text).try_cast("timestamp")))
    if "epoch" in form.groups:
        return F.when(fits, F.timestamp_seconds(_group(form, text, "epoch").cast("bigint")))
    fraction = F.rpad(_group(form, text, "fraction"), 3, "0") if "fraction" in form.groups else F.lit("000")
    clock = F.concat_ws(":", _hour(form, text), _two(form, text, "minute"), _two(form, text, "second"))
    whole = F.concat(_day(form, text), F.lit(" "), clock, F.lit("."), F.substring(fraction, 1, 3), _zone(form, text))
    return F.when(fits & _is_half_true(form, text), whole.try_cast("timestamp"))


def spark_date(form: TimeFormat, text: Column) -> Column:
    """As `TimeFormat.days`: a date, null if the text does not fit."""
    day = F.substring(text, 1, 10) if form.text == RFC3339 else _day(form, text)
    return F.when(_fits(form, text), day.try_cast("date"))


def whole_millis(timestamp: Column) -> Column:
    """The same time without its digits below the millisecond."""
    return F.timestamp_millis(F.unix_millis(timestamp))


def _fits(form: TimeFormat, text: Column) -> Column:
    return F.rlike(text, F.lit(f"^(?:{form.pattern})\\z"))


def _group(form: TimeFormat, text: Column, name: str) -> Column:
    return F.regexp_extract(text, f"^(?:{form.pattern})\\z", form.groups.index(name) + 1)


def _number(form: TimeFormat, text: Column, name: str) -> Column:
    return _group(form, text, name).cast("int")


def _two(form: TimeFormat, text: Column, name: str) -> Column:
    return F.lpad(_group(form, text, name), 2, "0") if name in form.groups else F.lit("00")


def _zone(form: TimeFormat, text: Column) -> Column:
    if "offset" not in form.groups:
        return F.lit("Z")
    zone = F.coalesce(F.nullif(_group(form, text, "offset"), F.lit("")), F.lit("Z"))
    # Spark's cast wants a colon in an offset that has minutes.
    return F.regexp_replace(zone, r"^([+-]\d\d):?(\d\d)$", "$1:$2")


def _hour(form: TimeFormat, text: Column) -> Column:
    if "hour" in form.groups:
        return _two(form, text, "hour")
    if "hour_of_half" not in form.groups:
        return F.lit("00")
    hour = _number(form, text, "hour_of_half") % _NOON
    return F.lpad(F.when(_is_after_noon(form, text), hour + _NOON).otherwise(hour).cast("string"), 2, "0")


def _is_after_noon(form: TimeFormat, text: Column) -> Column:
    return F.lower(_group(form, text, "half")) == "pm"


def _is_half_true(form: TimeFormat, text: Column) -> Column:
    if "hour" not in form.groups or "half" not in form.groups:
        return F.lit(True)
    return (_number(form, text, "hour") >= _NOON) == _is_after_noon(form, text)


def _day(form: TimeFormat, text: Column) -> Column:
    if "iso_week" in form.groups:
        return _day_of_week(form, text)
    year = _group(form, text, "year") if "year" in form.groups else _year_of_century(form, text)
    if "day_of_year" in form.groups:
        number = _number(form, text, "day_of_year")
        day = F.date_add(F.concat(year, F.lit("-01-01")).try_cast("date"), number - 1)
        return F.when((number > 0) & (F.year(day).cast("string") == F.ltrim(year, F.lit("0"))), day.cast("string"))
    if "month_name" in form.groups:
        names = F.array(*(F.lit(name) for name in MONTHS))
        position = F.array_position(names, F.initcap(F.substring(_group(form, text, "month_name"), 1, 3)))
        month = F.lpad(position.cast("string"), 2, "0")
    else:
        month = _two(form, text, "month") if "month" in form.groups else F.lit("01")
    return F.concat_ws("-", year, month, _two(form, text, "day") if "day" in form.groups else F.lit("01"))


def _day_of_week(form: TimeFormat, text: Column) -> Column:
    """The day of an ISO week: the first week of a year is that of 4 January."""
    fourth = F.concat(_group(form, text, "iso_year"), F.lit("-01-04")).try_cast("date")
    monday = F.date_sub(fourth, F.weekday(fourth))
    week = _number(form, text, "iso_week")
    day = F.date_add(monday, (week - 1) * 7 + _number(form, text, "weekday") - 1)
    return F.when(F.weekofyear(day) == week, day.cast("string"))


def _year_of_century(form: TimeFormat, text: Column) -> Column:
    short = _group(form, text, "year_of_century")
    return F.concat(F.when(short.cast("int") < CENTURY_TURN, F.lit("20")).otherwise(F.lit("19")), short)

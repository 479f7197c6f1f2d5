"""RFC 3339 timestamps in texts, as Spark expressions.

Owns the way of columns that are texts already in Spark; `text_values` has that of cells. What is admitted says
`odfabric.formats.files.time_formats`, and a test holds both together.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from odfabric.formats.files.time_formats import RFC3339_TIMESTAMP


def spark_timestamp(text: Column) -> Column:
    """A timestamp of whole milliseconds, null if the text is none of RFC 3339."""
    fits = F.rlike(text, F.lit(f"^(?:{RFC3339_TIMESTAMP.pattern})\\z"))
    return F.when(fits, whole_millis(F.upper(text).try_cast("timestamp")))


def whole_millis(timestamp: Column) -> Column:
    """The same time without its digits below the millisecond."""
    return F.timestamp_millis(F.unix_millis(timestamp))

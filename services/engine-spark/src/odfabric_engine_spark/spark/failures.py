"""What Spark and Arrow say when something fails, as errors of the closed tree.

Owns the reading of their exceptions that no operation has turned into something better. Invariant: a message for users
holds neither paths of this machine nor stack traces. Not here: how errors travel (`odfabric.formats.engine_messages.engine_wire`).
"""

from __future__ import annotations

import re

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from odfabric.errors import Corrupt, Determinate, InvalidData, InvalidQuery, LimitExceeded, OdfError, Place
from odfabric.model.engine import COLUMN_SIZE_LIMIT

_OF_DATA = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DATETIME_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "DUPLICATED_MAP_KEY",
    "INVALID_ARRAY_INDEX",
    "INVALID_FRACTION_OF_SECOND",
    "INTERVAL_ARITHMETIC_OVERFLOW",
    "INTERVAL_DIVIDED_BY_ZERO",
    "MAP_KEY_DOES_NOT_EXIST",
    "NULL_MAP_KEY",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "REMAINDER_BY_ZERO",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    "USER_RAISED_EXCEPTION",
    "CANNOT_PARSE_TIMESTAMP",
    "CONVERSION_INVALID_INPUT",
    "INVALID_PARAMETER_VALUE",
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
    "INVALID_FORMAT",
    "MALFORMED_RECORD_IN_PARSING",
    "UNSUPPORTED_FEATURE",
)
"""Error conditions of Spark that a row of the user's data causes, whatever the query; beside those whose state says so."""

_SAME_MEMBERS = "DUPLICATED_FIELD_NAME_IN_ARROW_STRUCT"

UNREADABLE = "FAILED_READ_FILE"
"""Spark's condition for a file that it cannot read to the end. Files of users are never read by Spark alone: these are the node's own."""
_FILE_NAME = re.compile(r"reading file \S*?([^/\s]+?)\.?(?:\s|$)")

_STATES_OF_DATA = ("21", "22")
"""Classes of SQL states: too many rows for a value, and all that is wrong with one."""

_WRONG_ARGUMENT = re.compile(
    r"[\w.$]+\.(?:Spark)?(?:IllegalArgument|Arithmetic|NumberFormat|DateTime|PatternSyntax|\w*Format\w*|SAXParse|Runtime)Exception"
)
"""What functions raise that tell no condition; it is about an argument where an expression was at work."""
_KIND_CHARACTERS_MAX = 200
_AT_WORK = "\tat org.apache.spark.sql.catalyst.expressions."
_CAUSE = "Caused by: "

_OF_THE_MACHINE = ("No space left on device", "Too many open files", "Cannot allocate memory", "Disk quota exceeded")

_OF_LONG_COLUMNS = ("offset overflow", "cannot contain more than", "byte strings of")
"""What Arrow says, and we with it, when texts of a column are more than its offsets of 32 bits reach."""
_COLUMN_BYTES_MAX = (1 << 31) - 1

_OF_TASKS = ("Python worker exited unexpectedly", "Python worker failed to connect back", "MemoryError")
"""What Spark says when a process that ran a task of ours was ended, for instance because its machine ran out of memory."""

_OF_EXECUTORS = (
    "ExecutorLostFailure",
    "FetchFailed",
    "Missing an output location for shuffle",
    "Master removed our application",
)
"""What Spark says when a task could not be finished on any executor, however often it was tried."""

_CONDITION = re.compile(
    r"\[([A-Z0-9_]+)(?:\.[A-Z0-9_]+)*\]\s*(.*?)(?:\s*SQLSTATE: ([0-9A-Z]{5})|(?<!:)\n|$)", re.DOTALL
)
"""A line that ends with a colon says nothing without the next one."""
_OF_OLD_VERSIONS = re.compile(r"You may get a different result due to the upgrading to Spark >= [\d.]+:\s*")
MESSAGE_CHARACTERS_MAX = 500
_TEXT_CHARACTERS_MAX = 256 << 10
"""Of what Spark says so much is read, of its beginning and its end: it repeats values of any length."""
_BLANKS = re.compile(r"\s{33,}")
_BLANKS_MAX = 32
"""Of blanks in a row so many are read: patterns above look at each with all that follow."""
_TOO_DEEP = ("java.lang.StackOverflowError", "Max iterations (", "nesting depth (")
"""What Spark and the libraries below it say of recursions that end."""
_OF_PATTERNS = "java.util.regex"
_NO_COLUMN = "UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION"
_ABORTED = "Job aborted due to stage failure"
_CORRECT = "correct the row or the query that reads it"
_HINTS = {
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION": "write patterns of times as yyyy-MM-dd HH:mm:ss, or correct the row",
    "DUPLICATED_MAP_KEY": f"{_CORRECT}: a map has each key once. One value of a text is regexp_extract(text, '(^|,)key:([^,]*)', 2), and maps"
    " are put together by map_concat(map_filter(a, (k, v) -> not map_contains_key(b, k)), b)",
    "MALFORMED_RECORD_IN_PARSING": f"{_CORRECT}: try_parse_json(..), and from_json(..) without FAILFAST, give null for what they cannot read",
}
"""What to do about a row, where there is more to say of it."""


def as_odf_error(error: BaseException) -> OdfError | None:
    """The error to answer with, None if it is a bug of ours."""
    if isinstance(error, OdfError):
        return error
    if _of_recursion(error):
        return _nested_too_deeply()
    if isinstance(error, OSError):
        return Determinate(f"the engine's machine failed: {error.strerror or type(error).__name__}")
    if isinstance(error, pa.ArrowException) and any(reason in str(error) for reason in _OF_LONG_COLUMNS):
        return LimitExceeded(
            "a column has more than 2 GiB in hand at once: its rows have to come in smaller pieces",
            limit=COLUMN_SIZE_LIMIT,
            maximum=_COLUMN_BYTES_MAX,
        )
    if not isinstance(error, PySparkException | Py4JError):
        return None
    text = spark_text(error)
    found = _condition(text)
    if found is None or not _is_of_data(found):  # else it is a value that reads so
        deep = _too_deep(text) if any(said in text for said in _TOO_DEEP) else None
        if deep is not None:
            return deep
    if found is not None and found[1] == _NO_COLUMN:
        return InvalidQuery(_message(found), hint="cast it to a number or a text: no column holds such values")
    if found is not None and found[1] == _SAME_MEMBERS:
        return InvalidQuery(_message(found), hint="name the members of each struct apart")
    if found is not None and _is_of_data(
        found
    ):  # first, for such a message quotes values, which may read like anything below
        return InvalidData(_message(found), hint=_HINTS.get(found[1], _CORRECT))
    if found is not None and found[1] == UNREADABLE and not any(reason in text for reason in _OF_THE_MACHINE):
        name = _FILE_NAME.search(found[2])
        return Corrupt("a file that Spark reads is damaged", object_name=name[1] if name else "unknown")
    if reason := next((reason for reason in _OF_THE_MACHINE if reason in text), None):
        return Determinate(f"the engine's machine failed: {reason}")
    if any(reason in text for reason in _OF_EXECUTORS):
        return Determinate(
            "the executors that ran the call were lost, again and again", hint="executor_memory_mib may be too little"
        )
    if reason := next((reason for reason in _OF_TASKS if reason in text), None):
        return Determinate(
            f"a process of a task was ended: {reason}",
            hint="the machine that ran it needs more memory beside the heap of Spark",
        )
    if found is None and (wrong := _wrong_argument(error)):
        return InvalidData(wrong, hint=_CORRECT)
    if is_silence(error):
        return Determinate("the engine's JVM does not answer")
    return None


def _too_deep(text: str) -> OdfError | None:
    """The report of a recursion too deep, over a row's value or the query, or None."""
    overflow = _TOO_DEEP[0] in text
    if overflow and (_OF_PATTERNS in text or _ABORTED in text):
        return InvalidData(
            "a function goes too deep over a value: a regular expression that repeats a choice, such as (a|b)*, over a long text,"
            " or a text nested too deeply",
            hint="write [ab]* or (a|b)*+ for it, cut the text by left(..), or correct the row",
        )
    if overflow or _condition(text) is None:
        return _nested_too_deeply()
    return None


def _nested_too_deeply() -> InvalidQuery:
    return InvalidQuery(
        "the query is nested too deeply",
        place=Place(rule="too-deep"),
        hint="make steps of it, or fewer relations of WITH and branches of UNION in a row",
    )


def is_silence(error: BaseException) -> bool:
    """Whether the JVM did not answer at all.

    One that answers that it has no such method gives a trace: a bug of ours.
    """
    if _of_recursion(error):
        return False
    if isinstance(error, ConnectionError | EOFError):
        return True
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def _of_recursion(error: BaseException) -> bool:
    """Whether our own recursion over a query's tree went too deep.

    Be it while a question to the JVM was asked.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, RecursionError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def spark_text(error: BaseException) -> str:
    """All that Spark says, causes included: for reading, never for showing."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return _readable(f"{error}\n{java.toString()}" if java is not None and hasattr(java, "toString") else str(error))


def _readable(text: str) -> str:
    """A bounded start of a text with user values: regex search is uninterruptible."""
    if len(text) > _TEXT_CHARACTERS_MAX:
        half = _TEXT_CHARACTERS_MAX // 2
        text = f"{text[:half]} .. {text[-half:]}"
    return _BLANKS.sub(lambda run: run[0][:_BLANKS_MAX], text)


def spark_condition(error: BaseException) -> tuple[str | None, str]:
    """Spark's error condition (`DIVIDE_BY_ZERO`) and its bare message.

    Without stack trace and advice on settings.
    """
    found = _condition(spark_text(error))
    if found is None:
        return None, str(error).splitlines()[0][:MESSAGE_CHARACTERS_MAX] if str(error) else type(error).__name__
    return found[1], _message(found)


def fails_by_value(error: BaseException) -> bool:
    """Whether an error is what a value does wrong.

    Not one that the query raises itself.
    """
    found = _condition(spark_text(error))
    return found is not None and _is_of_data(found) and found[1] != "USER_RAISED_EXCEPTION"


def _condition(text: str) -> re.Match[str] | None:
    found = None
    for found in _CONDITION.finditer(text):
        if _is_of_data(found):  # the innermost cause says what the row did; the outer ones only that a task failed
            break
    return found


def _is_of_data(found: re.Match[str]) -> bool:
    return found[1] in _OF_DATA or (found[3] or "").startswith(_STATES_OF_DATA)


def _message(found: re.Match[str]) -> str:
    message = _OF_OLD_VERSIONS.sub("", found[2])
    message = re.sub(r"\s*(?:If necessary|Use `try|To return NULL|Set \"?spark).*", "", message, flags=re.DOTALL)
    return message.strip()[:MESSAGE_CHARACTERS_MAX]


def _wrong_argument(error: BaseException) -> str | None:
    """What a function says of its arguments, if that is why it failed."""
    for cause in reversed(_readable(getattr(error, "_stackTrace", None) or str(error)).split(_CAUSE)):
        said = cause.split("\n\tat ", 1)[0].strip()
        kind, _, message = said.splitlines()[-1 if said.startswith("An error occurred") else 0].partition(": ")
        if _AT_WORK in cause and _WRONG_ARGUMENT.fullmatch(kind[:_KIND_CHARACTERS_MAX].strip(": ")):
            return f"a function refuses its arguments: {message}"[:MESSAGE_CHARACTERS_MAX]
    return None

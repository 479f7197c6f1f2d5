"""Names of columns: what a name of a new dataset may be.

Owns the rule and the sentences in which a name is refused. Invariant: names that pass are not empty, not longer than the limit, print on
one line, and no two columns of a table, or members of a struct, differ in case only: `SELECT *` could not tell them apart. Names of
datasets that exist are not judged here: they stay readable, and writable.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from odfabric.errors import InvalidData, InvalidManifest, LimitExceeded, OdfError, Place
from odfabric.model.data_schema import DataSchema, DataType, DataTypeList, DataTypeOption, DataTypeStruct
from odfabric.model.vocabulary import DatasetVocabulary

NAME_LIMIT = "column_name_bytes_max"
"""The setting that bounds a name."""

WRONG_COLUMNS = "BadInputSchema"
"""The rule of columns that cannot be those of the dataset, whatever rows have in them."""

RENAME_HINT = "rename it in a preprocess query: SELECT `name in the file` AS better_name, .. FROM input"

_SHOWN_CHARACTERS_MAX = 60
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS_TEXT = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Signs that let a name look like another one: they turn the direction of what follows."""


@dataclass(frozen=True, slots=True)
class NameProblem:
    """Why a name is refused.

    `path` is the column, or a member of it, as a message shows it. `too_long` is about the limit.
    """

    name: str
    path: str
    message: str
    too_long: bool = False

    def error(self, *, bytes_max: int) -> OdfError:
        """As an error about data."""
        place = Place(field=self.path, rule=WRONG_COLUMNS)
        if self.too_long:
            message = f"{self.message}; {RENAME_HINT}"
            return LimitExceeded(message, limit=NAME_LIMIT, maximum=bytes_max, place=place)
        return InvalidData(self.message, place=place, hint=RENAME_HINT)

    def error_of_manifest(self, field: str, *, bytes_max: int) -> OdfError:
        """As an error about the manifest that declares the name at `field`."""
        place = Place(field=field)
        if self.too_long:
            return LimitExceeded(self.message, limit=NAME_LIMIT, maximum=bytes_max, place=place)
        return InvalidManifest(self.message, place=place, hint="declare another name")


def name_problems(
    columns: DataSchema, vocabulary: DatasetVocabulary, *, bytes_max: int, known: Iterable[str] = ()
) -> Iterator[NameProblem]:
    """What is wrong with names of columns and members, in their order.

    `known` are columns that the dataset has already.
    """
    system = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time, vocabulary.event_time)
    given = [field.name for field in columns.fields]
    accepted = frozenset(known)
    yield from _of_siblings(
        [*(name for name in system if name not in given), *given], "Column", "", bytes_max, accepted
    )
    for field in columns.fields:
        if field.name not in accepted:
            yield from _of_members(field.type, field.name, bytes_max)


def shown_name(name: str) -> str:
    """A name as messages show it: on one line, cut if it is long."""
    cut = name if len(name) <= _SHOWN_CHARACTERS_MAX else f"{name[:_SHOWN_CHARACTERS_MAX]}.."
    return "".join(sign if _is_plain(sign) else f"\\u{ord(sign):04x}" for sign in cut)


def _of_siblings(
    names: Sequence[str], what: str, above: str, bytes_max: int, accepted: frozenset[str] = frozenset()
) -> Iterator[NameProblem]:
    seen: dict[str, str] = {}
    for name in names:
        path = f"{above}{shown_name(name)}"
        other = seen.setdefault(name.lower(), name)
        if name in accepted:
            continue
        size = len(name.encode("utf-8", "surrogatepass"))
        strange = next((sign for sign in name if not _is_plain(sign)), None)
        if not name.strip():
            yield NameProblem(name, path, f"{what} {names.index(name) + 1} has no name")
        elif size > bytes_max:
            yield NameProblem(
                name,
                path,
                f"{what} `{path}` has a name of {size} bytes, at most {bytes_max} are allowed",
                too_long=True,
            )
        elif strange is not None:
            yield NameProblem(name, path, f"{what} `{path}` has the control character U+{ord(strange):04X} in its name")
        elif other != name:
            yield NameProblem(
                name, path, f"{what} `{path}` and {what.lower()} `{above}{shown_name(other)}` differ in case only"
            )


def _of_members(data_type: DataType, path: str, bytes_max: int) -> Iterator[NameProblem]:
    match data_type:
        case DataTypeOption(inner=inner):
            yield from _of_members(inner, path, bytes_max)
        case DataTypeList(item_type=item):
            yield from _of_members(item, f"{path}[]", bytes_max)
        case DataTypeStruct(fields=fields):
            yield from _of_siblings([field.name for field in fields], "Member", f"{shown_name(path)}.", bytes_max)
            for field in fields:
                yield from _of_members(field.type, f"{path}.{field.name}", bytes_max)
        case _:
            return


def _is_plain(sign: str) -> bool:
    return unicodedata.category(sign) not in _REFUSED_CATEGORIES and sign not in _TURNS_TEXT

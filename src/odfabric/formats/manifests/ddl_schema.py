"""The deprecated `ddlSchema`: `name TYPE [NOT NULL]` elements as a data schema.

Owns the small grammar and its table of types. Columns and list items are nullable unless they say NOT NULL; the reference
makes DATE and DECIMAL columns required without being asked, which is not repeated here. Source: specification, "Manifests".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.errors import InvalidManifest, Place
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)

ARRAY_DEPTH_MAX = 16
DECIMAL_DIGITS_MAX = 76

_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|"(?P<quoted>(?:[^"]|"")+)"|`(?P<ticked>(?:[^`]|``)+)`|(?P<sign>[(),<>]))"""
)

_SIMPLE: dict[str, DataType] = {
    "BOOL": DataTypeBool(),
    "BOOLEAN": DataTypeBool(),
    "FLOAT": DataTypeFloat32(),
    "REAL": DataTypeFloat32(),
    "DOUBLE": DataTypeFloat64(),
    "STRING": DataTypeString(),
    "TEXT": DataTypeString(),
    "VARCHAR": DataTypeString(),
    "DATE": DataTypeDate(),
    "TIMESTAMP": DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC"),
}
_INTEGER: dict[str, tuple[DataType, DataType]] = {
    "TINYINT": (DataTypeInt8(), DataTypeUInt8()),
    "SMALLINT": (DataTypeInt16(), DataTypeUInt16()),
    "INT": (DataTypeInt32(), DataTypeUInt32()),
    "INTEGER": (DataTypeInt32(), DataTypeUInt32()),
    "BIGINT": (DataTypeInt64(), DataTypeUInt64()),
}


def ddl_to_schema(elements: Sequence[str]) -> DataSchema:
    """The data schema of DDL elements, each holding one or several columns.

    Raises InvalidManifest; `place.field` names the element, `place.column` the character in it.
    """
    fields: list[DataField] = []
    for index, element in enumerate(elements):
        parser = _Parser(_tokens(element, index), index, len(element) + 1)
        fields.append(parser.column())
        while parser.accept(","):
            fields.append(parser.column())
        parser.end()
    names = [field.name for field in fields]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidManifest(f"Column `{name}` is declared twice", place=Place(field="ddlSchema"))
    return DataSchema(fields=tuple(fields))


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    column: int
    is_name: bool
    """A word or a quoted name, as opposed to a number or sign."""
    is_quoted: bool = False

    @property
    def keyword(self) -> str:
        return "" if self.is_quoted else self.text.upper()


def _tokens(element: str, index: int) -> list[_Token]:
    found, position, end = [], 0, len(element.rstrip())
    while position < end:
        match = _TOKEN.match(element, position)
        if match is None:
            at = position + len(element[position:]) - len(element[position:].lstrip())
            raise _error(index, at + 1, f"unexpected character '{element[at]}'")
        column = match.start(match.lastgroup or 0) + 1
        if match["quoted"] or match["ticked"]:
            text = match["quoted"].replace('""', '"') if match["quoted"] else match["ticked"].replace("``", "`")
            found.append(_Token(text, column - 1, is_name=True, is_quoted=True))
        else:
            found.append(_Token(match[match.lastgroup or 0], column, is_name=match["word"] is not None))
        position = match.end()
    return found


class _Parser:
    """One pass over the tokens of an element."""

    def __init__(self, tokens: list[_Token], element: int, end_column: int) -> None:
        self._tokens, self._element = tokens, element
        self._end = _Token("", end_column, is_name=False)
        self._position = 0

    def column(self) -> DataField:
        name = self._take()
        if not name.is_name:
            raise self._unexpected(name, "a column name")
        data_type = self._type(depth=0)
        if self.accept("NOT"):
            self._expect("NULL")
            return DataField(name=name.text, type=data_type)
        self.accept("NULL")
        return DataField(name=name.text, type=DataTypeOption(inner=data_type))

    def end(self) -> None:
        if self._peek() is not self._end:
            raise self._unexpected(self._peek(), "',' or NOT NULL")

    def accept(self, keyword: str) -> bool:
        if self._peek().keyword != keyword:
            return False
        self._position += 1
        return True

    def _type(self, *, depth: int) -> DataType:
        token = self._take()
        if token.keyword in _INTEGER:
            signed, unsigned = _INTEGER[token.keyword]
            return unsigned if self.accept("UNSIGNED") else signed
        if token.keyword == "DECIMAL":
            return self._decimal(token)
        if token.keyword == "ARRAY":
            if depth >= ARRAY_DEPTH_MAX:
                raise _error(self._element, token.column, f"arrays nest at most {ARRAY_DEPTH_MAX} deep")
            self._expect("<")
            item = self._type(depth=depth + 1)
            self._expect(">")
            return DataTypeList(item_type=DataTypeOption(inner=item))
        if token.keyword not in _SIMPLE:
            raise self._unexpected(
                token, f"a type, one of {', '.join(sorted({*_SIMPLE, *_INTEGER, 'ARRAY', 'DECIMAL'}))}"
            )
        if token.keyword == "DOUBLE":
            self.accept("PRECISION")
        if token.keyword == "VARCHAR" and self.accept("("):
            self._number()
            self._expect(")")
        return _SIMPLE[token.keyword]

    def _decimal(self, token: _Token) -> DataType:
        self._expect("(")
        precision = self._number()
        self._expect(",")
        scale = self._number()
        self._expect(")")
        if not (1 <= precision <= DECIMAL_DIGITS_MAX and scale <= precision):
            reason = f"DECIMAL(p, s) needs 1 <= p <= {DECIMAL_DIGITS_MAX} and s <= p"
            raise _error(self._element, token.column, reason)
        return DataTypeDecimal(precision=precision, scale=scale)

    def _number(self) -> int:
        token = self._take()
        # Four digits are more than any precision or length needs, and keep hostile numbers from being converted.
        if not token.text.isdecimal() or token.is_name or len(token.text) > 4:
            raise self._unexpected(token, "a number")
        return int(token.text)

    def _expect(self, keyword: str) -> None:
        token = self._take()
        if token.keyword != keyword:
            raise self._unexpected(token, f"'{keyword}'")

    def _peek(self) -> _Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else self._end

    def _take(self) -> _Token:
        token = self._peek()
        self._position += 1
        return token

    def _unexpected(self, token: _Token, expected: str) -> InvalidManifest:
        found = f"'{token.text}'" if token.text else "the end"
        return _error(self._element, token.column, f"found {found} where {expected} is expected")


def _error(element: int, column: int, reason: str) -> InvalidManifest:
    return InvalidManifest(
        f"Invalid DDL: {reason}",
        place=Place(field=f"ddlSchema[{element}]", column=column),
        hint="a column is written `name TYPE [NOT NULL]`",
    )

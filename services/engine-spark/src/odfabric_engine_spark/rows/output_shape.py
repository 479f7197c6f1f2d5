"""Output columns of a transform, and casts to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.canonical_rows import one_array
from odfabric.formats.slices.slice_schema import OFFSET_TYPE, OPERATION_TYPE, TIMESTAMP_TYPE, check_compatible
from odfabric.model.data_schema import DataSchema
from odfabric.model.vocabulary import DatasetVocabulary


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Columns of the output.

    `rows` are those that the query gives, in the order of slices: event time first.
    """

    vocabulary: DatasetVocabulary
    rows: pa.Schema
    op_selected: bool

    @property
    def slice(self) -> pa.Schema:
        """Columns of a slice."""
        names = self.vocabulary
        system = [
            pa.field(names.offset, OFFSET_TYPE, nullable=False),
            pa.field(names.operation_type, OPERATION_TYPE, nullable=False),
            pa.field(names.system_time, TIMESTAMP_TYPE, nullable=False),
        ]
        return pa.schema([*system, *self.rows])

    @property
    def data_schema(self) -> DataSchema:
        """As SetDataSchema has it."""
        return arrow_to_data_schema(self.slice)

    def fitted(self, existing: DataSchema | None) -> OutputShape:
        """The same columns under the dataset's schema.

        Raises IncompatibleSchema if they do not fit it.
        """
        if existing is None:
            return self
        known = data_schema_to_arrow(existing, encodings=False)
        check_compatible(
            self.slice,
            known,
            hint="if an input has got a column, `odf set-transform` with the same manifest takes it up",
        )
        return OutputShape(self.vocabulary, pa.schema(list(known)[3:]), self.op_selected)


def as_output(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of the output in its types.

    Digits below its resolution are cut, as everywhere in the format.
    """
    arrays = [_cast(one_array(rows.column(field.name)), field) for field in schema]
    return pa.Table.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return cast_array(array, field.type, safe=_has_unsigned(field.type))
    except pa.ArrowException as error:
        raise InvalidData(f"a value does not fit its column: {error}", place=Place(field=field.name)) from error


def _has_unsigned(data_type: pa.DataType) -> bool:
    if types.is_unsigned_integer(data_type):
        return True
    members: Iterable[pa.Field] = data_type if types.is_struct(data_type) else ()
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        members = (data_type.value_field,)
    return any(_has_unsigned(member.type) for member in members)

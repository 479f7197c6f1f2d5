"""Columns of a dataset, for sources that declare none.

Owns what the files of such a source are read as once the dataset has columns: those columns decide, and not what the first rows of a file
look like. Event times alone are read as they come, for the rules that make times of them come later (`preprocess`). Invariant: a field
that the dataset has no column for is refused by its name. Not here: names that a file must not have (`preprocess`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.column_names import shown_name
from odfabric.model.engine import IngestRequest
from odfabric.model.source import MergeStrategyChangelogStream, MergeStrategyUpsertStream

DECLARE_HINT = "declare the columns in the schema of the read step by `odf set-source`, which may add one, or rename and cast them in a preprocess query"

FREEZE_HINT = (
    "the source takes no other fields (odfabric.dev/contract: freeze): declare it by `odf set-source`, or leave it out"
)


@dataclass(frozen=True, slots=True)
class DatasetColumns:
    """Data columns by name, all of them optional to read.

    `reserved` are names of system columns that a file may use for its own.
    """

    types: dict[str, pa.DataType]
    event_time: str
    reserved: tuple[str, ...]

    @classmethod
    def of(cls, request: IngestRequest) -> DatasetColumns | None:
        """The dataset's columns, if they decide; else None.

        None if the read step or a preprocess query says what there is, or the dataset has no columns yet.
        """
        read = request.read
        is_declared = read.schema is not None or read.ddl_schema is not None
        if request.data_schema is None or request.preprocess is not None or is_declared:
            return None
        names = request.vocabulary
        carries_op = isinstance(request.merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
        system = (names.offset, names.system_time, *(() if carries_op else (names.operation_type,)))
        schema = data_schema_to_arrow(request.data_schema, encodings=False)
        types = {item.name: item.type for item in schema if item.name not in system}
        return cls(types, names.event_time, system)

    def type_of(self, name: str) -> pa.DataType | None:
        """What a field of this name is read as.

        None for one that the dataset has no column for.
        """
        if name not in self.types and name in self.reserved:
            name = f"_{name}"
        return self.types.get(name)

    def schema(self, found: pa.Schema, *, place: Place, partial: bool) -> pa.Schema:
        """Columns of files with the fields `found`; types only count for event times.

        `partial`: fields that are not there are null; otherwise each column must be there. Raises InvalidData naming those that do not fit.
        """
        fields = []
        for item in found:
            wanted = self.type_of(item.name)
            if wanted is None:
                raise self.unknown([item.name], place)
            fields.append(pa.field(item.name, item.type if item.name == self.event_time else wanted))
        missing = [name for name in self._missing(found.names) if partial or name != self.event_time]
        if missing and not partial:
            listed = ", ".join(f"`{shown_name(name)}`" for name in missing)
            message = f"The file has no column {listed}, which the dataset has"
            raise InvalidData(
                message, place=Place(file=place.file, line=place.line, field=missing[0]), hint=DECLARE_HINT
            )
        fields += [pa.field(name, self.types[name]) for name in missing]
        return pa.schema(fields)

    def unknown(self, names: Sequence[str], place: Place) -> InvalidData:
        """The refusal of fields that the dataset has no column for."""
        listed = ", ".join(f"`{shown_name(name)}`" for name in names)
        return InvalidData(
            f"The dataset has no column {listed}",
            place=Place(file=place.file, line=place.line, field=names[0]),
            hint=DECLARE_HINT,
        )

    def _missing(self, found: Collection[str]) -> list[str]:
        stored = {f"_{name}" if name not in self.types and name in self.reserved else name for name in found}
        return [name for name in self.types if name not in stored]

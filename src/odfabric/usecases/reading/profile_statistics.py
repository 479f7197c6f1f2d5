"""A profile of columns from slice statistics, without rows and engine.

Invariant: it says of how many records it speaks, and leaves out what the files do not tell. The statistics are claims of those who wrote
the slices and the slices are not hashed for them: an exact profile reads all rows. Retractions and corrections are records too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import IncompatibleSchema, InvalidData, LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import DATA, object_key
from odfabric.formats.json_values.json_rows import DataFormat, rows_to_json
from odfabric.formats.parquet.parquet_claims import FileClaims, read_claims
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.usecases.chain.repository import Repository

SLICES_MAX = 50
"""Slices whose footers are read for one profile, the newest: each may be a request to an object store."""
FOOTERS_BYTES_MAX = 128 << 10
"""Footers that are decoded for one profile, in bytes: a thousand columns have 100 KB, which take a quarter of a second."""
FOOTER_BYTES_MAX = 8 << 20
"""A footer above it is not decoded: its slice counts as one that tells nothing."""

KnownClaims = Remembered[tuple[Multihash, tuple[str, ...]], FileClaims]
"""What was read of slices, by their hash and the columns; slices do not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Of one column; None is what the files do not tell.

    `least` and `greatest` are JSON values.
    """

    nulls: int | None
    least: object
    greatest: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStatistics:
    """`records` of `records_total` are in the `slices` newest slices.

    Their footers were read.
    """

    records: int
    records_total: int
    slices: int
    columns: Mapping[str, ColumnStatistics]


def profile_statistics(
    entry: CatalogEntry, columns: Sequence[str], *, repository: Repository, known: KnownClaims
) -> ProfileStatistics:
    """Of `columns` of the schema in force, at the head. Raises NotFound, Corrupt."""
    head, state = repository.current(entry.id)
    slices: list[DataSlice] = []
    claims: list[FileClaims | None] = []
    decoded = 0
    for data in islice(data_slices_down(repository.blocks(entry.id), head.hash), SLICES_MAX):
        found = _claims(entry.id, data, tuple(columns), repository, known)
        slices.append(data)
        claims.append(found)
        decoded += found.footer_bytes if found else 0
        if decoded > FOOTERS_BYTES_MAX:
            break
    target = _types(state)
    return ProfileStatistics(
        records=sum(each.offset_interval.end - each.offset_interval.start + 1 for each in slices),
        records_total=state.next_offset,
        slices=len(slices),
        columns={name: _column(name, target[name], claims) for name in columns if name in target},
    )


def _claims(
    dataset: DatasetId, data: DataSlice, columns: tuple[str, ...], repository: Repository, known: KnownClaims
) -> FileClaims | None:
    """A slice's claims; None if it is missing or its footer tells nothing.

    To find that out is what verification is for.
    """
    key = (data.physical_hash, columns)
    found = known.get(key)
    if found is None:
        try:
            with repository.objects.open(object_key(dataset, DATA, data.physical_hash)) as file:
                found = read_claims(file, columns, footer_bytes_max=FOOTER_BYTES_MAX)
        except (NotFound, InvalidData, LimitExceeded):
            return None
        known.put(key, found)
    return found


def _types(state: ChainState) -> dict[str, pa.DataType]:
    schema = current_schema(state)
    return {field.name: field.type for field in data_schema_to_arrow(schema, encodings=False)} if schema else {}


def _column(name: str, data_type: pa.DataType, claims: Sequence[FileClaims | None]) -> ColumnStatistics:
    nulls = list(_nulls(name, claims))
    total = None if None in nulls else sum(each for each in nulls if each is not None)
    least, greatest = _bounds(name, data_type, claims)
    return ColumnStatistics(nulls=total, least=least, greatest=greatest)


def _nulls(name: str, claims: Sequence[FileClaims | None]) -> Iterator[int | None]:
    for each in claims:
        if each is None:
            yield None
        else:
            # A column that came later is null in every record of an older slice.
            yield each.columns[name].nulls if name in each.names else each.rows


def _bounds(name: str, data_type: pa.DataType, claims: Sequence[FileClaims | None]) -> tuple[object, object]:
    """Bounds over all slices, (None, None) if one slice does not give them.

    Those of the others could be wrong.
    """
    found = []
    for each in claims:
        bounds = pa.nulls(0, data_type) if each is None or name not in each.names else each.columns[name].bounds
        if each is None or bounds is None:
            return None, None
        try:
            found.append(bounds.cast(data_type))
        except pa.ArrowException:
            return None, None
    values = pa.chunked_array(found, data_type)
    if len(values) == 0:
        return None, None
    try:
        found_bounds = pc.min_max(values)
        both = pa.chunked_array([pa.array([found_bounds["min"], found_bounds["max"]], data_type)])
        shown = rows_to_json(pa.table({"bound": both}), DataFormat.JSON_AOA)
    except (pa.ArrowException, ValueError, IncompatibleSchema):
        return None, None
    assert isinstance(shown, list)
    (least,), (greatest,) = cast("list[list[object]]", shown)
    return least, greatest

"""Sums of many rows by Spark: the same sums as `AggregateRun.partial_sums` makes, spread over tasks.

Owns the statements that add up the slots of each group where rows are too many for memory. Invariant: both ways give the same
sums, bit by bit; a test holds them together. Source: rulings on small and large steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.incremental.accumulators import Accumulators, GroupValues
from odfabric_engine_spark.incremental.canonical import one_array, row_bytes
from odfabric_engine_spark.incremental.exact import LOW_BITS, Integers, Longs, decimal_units, object_array
from odfabric_engine_spark.incremental.group_keys import GroupColumn, key_fields, normal_key_columns
from odfabric_engine_spark.incremental.group_sums import WEIGHT, input_names
from odfabric_engine_spark.incremental.slots import (
    Counts,
    CountSlot,
    FloatSums,
    FloatSumSlot,
    Slot,
    SlotValue,
    Sums,
    SumSlot,
    Values,
    ValuesSlot,
    merge_values,
    sum_float_parts,
)
from odfabric_engine_spark.result_rows import whole

_EASY_DIGITS_MAX = 28
"""Decimals of so many digits can be summed ten billion times within Spark's 38; longer ones are counted by value."""
_MANTISSA_SHIFT = 52
_VALUE, _COUNT = "__odf_value", "__odf_count"
_EXPONENT, _HIGH, _LOW = "__odf_exponent", "__odf_high", "__odf_low"
_SPECIALS = ("NaN", "Infinity", "-Infinity")


class SparkSums:
    """Sums of the rows of a frame with keys, inputs and weights, by key; `keys` are in canonical order."""

    def __init__(
        self, rows: DataFrame, columns: Sequence[GroupColumn], accumulators: Accumulators, call: EngineCall
    ) -> None:
        self._call = call
        self._rows = rows
        self._columns = columns
        self._accumulators = accumulators
        self._inputs = [F.col(name) for name in input_names(accumulators)]
        self._plain = self._by_key(self._plain_sums())
        unordered = self._keys_of(self._plain)
        order = pc.sort_indices(unordered)
        self._plain = self._plain.take(order)
        self.keys: pa.Array = unordered.take(order)
        self.key_columns = normal_key_columns(self._plain, columns)

    def values(self) -> GroupValues:
        """The slots of each key."""
        return GroupValues([self._value(f"s{index}", slot) for index, slot in enumerate(self._accumulators.slots)])

    def _by_key(self, sums: Sequence[Column], *also: Column) -> pa.Table:
        names = [F.col(field.name) for field in key_fields(self._columns)]
        return whole(self._call, self._rows.groupBy(*names, *also).agg(*sums))

    def _keys_of(self, table: pa.Table) -> pa.Array:
        return row_bytes(list(normal_key_columns(table, self._columns).values()))

    def _groups_of(self, table: pa.Table) -> Longs:
        """The position of each row's key."""
        groups: Longs = pc.index_in(self._keys_of(table), value_set=self.keys).to_numpy().astype(np.int64)
        return groups

    def _plain_sums(self) -> list[Column]:
        """What one value per key can hold."""
        found: list[Column] = []
        for index, slot in enumerate(self._accumulators.slots):
            if isinstance(slot, CountSlot):
                weight = F.col(WEIGHT)
                if slot.input is not None:
                    weight = F.when(self._inputs[slot.input].isNotNull(), weight).otherwise(0)
                found.append(F.sum(weight).alias(f"s{index}"))
            elif isinstance(slot, SumSlot) and self._is_easy(slot):
                value = self._inputs[slot.input]
                wide = value if slot.scale else value.cast("decimal(20,0)") if self._is_integer(slot) else value
                found.append(F.sum(F.when(F.col(WEIGHT) > 0, wide).otherwise(-wide)).alias(f"s{index}"))
            elif isinstance(slot, FloatSumSlot):
                value = self._inputs[slot.input].cast("double")
                for number, special in enumerate(_SPECIALS):
                    weight = F.when(value == F.lit(special).cast("double"), F.col(WEIGHT)).otherwise(0)
                    found.append(F.sum(weight).alias(f"s{index}_{number}"))
        return found

    def _is_integer(self, slot: SumSlot) -> bool:
        return bool(types.is_integer(self._accumulators.input_types[slot.input]))

    def _is_easy(self, slot: SumSlot) -> bool:
        data_type = self._accumulators.input_types[slot.input]
        return self._is_integer(slot) or data_type.precision <= _EASY_DIGITS_MAX

    def _value(self, name: str, slot: Slot) -> SlotValue:
        match slot:
            case CountSlot():
                return Counts(_longs(self._plain, name))
            case SumSlot() if self._is_easy(slot):
                column = pc.fill_null(one_array(self._plain.column(name)), 0)
                return Sums(decimal_units(column), slot.scale)
            case SumSlot():
                return self._long_decimals(slot)
            case FloatSumSlot():
                specials = [_longs(self._plain, f"{name}_{number}") for number in range(len(_SPECIALS))]
                return FloatSums(self._float_units(slot), *specials)
            case ValuesSlot():
                return self._values(slot)
            case _:
                raise TypeError(f"no sums for {slot}")

    def _counted(self, value: Column, source: int) -> tuple[Longs, pa.Array, Longs]:
        """Key, value and net number of each value of an input."""
        present = self._rows.filter(self._inputs[source].isNotNull())
        names = [F.col(field.name) for field in key_fields(self._columns)]
        table = whole(self._call, present.groupBy(*names, value.alias(_VALUE)).agg(F.sum(WEIGHT).alias(_COUNT)))
        return self._groups_of(table), one_array(table.column(_VALUE)), _longs(table, _COUNT)

    def _long_decimals(self, slot: SumSlot) -> Sums:
        groups, values, counts = self._counted(self._inputs[slot.input], slot.input)
        total = object_array([0] * len(self.keys))
        np.add.at(total, groups, decimal_units(values) * counts.astype(object))
        return Sums(total, slot.scale)

    def _values(self, slot: ValuesSlot) -> Values:
        groups, values, counts = self._counted(self._inputs[slot.input], slot.input)
        return Values(len(self.keys), *merge_values(groups, slot.stored(values), counts))

    def _float_units(self, slot: FloatSumSlot) -> Integers:
        """Mantissas summed by exponent. The logarithm may err by one, so one bit more than a mantissa has is kept."""
        value = self._inputs[slot.input].cast("double")
        finite = value.isNotNull() & ~F.isnan(value) & (F.abs(value) < F.lit("Infinity").cast("double")) & (value != 0)
        exponent = F.floor(F.log2(F.abs(value))).cast("int") - 1
        rows = self._rows.filter(finite).withColumn(_EXPONENT, exponent).withColumn(_VALUE, value)
        shift = F.lit(_MANTISSA_SHIFT) - F.col(_EXPONENT)
        half = F.floor(shift / 2).cast("int")
        scaled = F.col(_VALUE) * F.pow(F.lit(2.0), half) * F.pow(F.lit(2.0), shift - half)
        mantissa = (scaled * F.col(WEIGHT)).cast("bigint")
        names = [F.col(field.name) for field in key_fields(self._columns)]
        parts = (
            rows.withColumn(_VALUE, mantissa)
            .groupBy(*names, F.col(_EXPONENT))
            .agg(
                F.sum(F.shiftright(F.col(_VALUE), LOW_BITS)).alias(_HIGH),
                F.sum(F.col(_VALUE).bitwiseAND(F.lit((1 << LOW_BITS) - 1))).alias(_LOW),
            )
        )
        return self._by_group(whole(self._call, parts))

    def _by_group(self, table: pa.Table) -> Integers:
        groups = self._groups_of(table)
        order = np.argsort(groups, kind="stable")
        high, low = (_longs(table, name)[order].astype(object) for name in (_HIGH, _LOW))
        exponents = _longs(table, _EXPONENT)[order] - _MANTISSA_SHIFT
        total = object_array([0] * len(self.keys))
        if len(order):
            total[np.unique(groups)] = sum_float_parts(groups[order], (high << LOW_BITS) + low, exponents)
        return total


def _longs(table: pa.Table, name: str) -> Longs:
    column: Longs = pc.fill_null(one_array(table.column(name)), 0).to_numpy().astype(np.int64)
    return column

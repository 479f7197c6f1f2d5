"""Types of columns in the words that people know from SQL, as Spark writes them."""

from __future__ import annotations

from odfabric.model.data_schema import (
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
)

_WORDS: dict[type, str] = {
    DataTypeBinary: "BINARY",
    DataTypeBool: "BOOLEAN",
    DataTypeDate: "DATE",
    DataTypeDuration: "DURATION",
    DataTypeFloat16: "FLOAT16",
    DataTypeFloat32: "FLOAT",
    DataTypeFloat64: "DOUBLE",
    DataTypeInt8: "TINYINT",
    DataTypeInt16: "SMALLINT",
    DataTypeInt32: "INT",
    DataTypeInt64: "BIGINT",
    DataTypeNull: "VOID",
    DataTypeString: "STRING",
    DataTypeTime: "TIME",
    DataTypeUInt8: "UNSIGNED TINYINT",
    DataTypeUInt16: "UNSIGNED SMALLINT",
    DataTypeUInt32: "UNSIGNED INT",
    DataTypeUInt64: "UNSIGNED BIGINT",
}


def type_name(data_type: DataType) -> str:
    """E.g. `DECIMAL(10, 2)`, `ARRAY<STRING>`.

    Whether a value may be missing is not said.
    """
    match data_type:
        case DataTypeOption(inner=inner):
            return type_name(inner)
        case DataTypeDecimal(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case DataTypeTimestamp(timezone=timezone):
            return "TIMESTAMP" if timezone else "TIMESTAMP_NTZ"
        case DataTypeList(item_type=item):
            return f"ARRAY<{type_name(item)}>"
        case DataTypeMap(key_type=key, value_type=value):
            return f"MAP<{type_name(key)}, {type_name(value)}>"
        case DataTypeStruct(fields=fields):
            return f"STRUCT<{', '.join(f'{field.name}: {type_name(field.type)}' for field in fields)}>"
        case _:
            return _WORDS[type(data_type)]

"""Query parameters that say in which form rows and their schema are answered."""

from __future__ import annotations

from fastapi import Query

DATA_FORMAT = Query(alias="dataFormat", description="JsonAoS, JsonSoA or JsonAoA")
SCHEMA_FORMAT = Query(
    alias="schemaFormat", description="ArrowJson, OdfJson, OdfYaml, Parquet or ParquetJson; asks for the schema"
)

"""Second reading of Parquet inside the engine's sandbox, where there is no Spark.

`python sandbox_parquet.py`, in the exchange folder: reads Parquet without page checksums, and writes `readings.json`: for each file None if
its second reader was DuckDB, or how the attempt to ask Spark failed. Nothing of the tests is seen in there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric_engine_spark.ingest.parquet.parquet_reader import ParquetReader
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.settings import EngineSettings

ROWS = 5_000
NUMBERS = pa.array(range(ROWS), pa.int64())
TABLES = {
    "plain": {"number": NUMBERS, "word": pa.array([f"word {number % 11} ü" for number in range(ROWS)])},
    # DuckDB does not tell these names apart, so only Spark can read them a second time.
    "names by case": {"number": NUMBERS, "Number": NUMBERS},
}


def second_reading(folder: Path, columns: dict[str, pa.Array]) -> str | None:
    """How asking Spark failed, None if nobody asked it."""
    pq.write_table(pa.table(columns), folder / "file.parquet", write_page_checksum=False)
    nobody = cast(Any, None)
    call = EngineCall(
        session=nobody, exchange=ExchangeFolder.at(folder), settings=EngineSettings(exchange=folder), scratch=folder
    )
    rows = ParquetReader(call, None).read([(folder / "file.parquet", "file.parquet")])
    assert rows is not None
    assert rows.count == ROWS
    try:
        rows.check()
    except AttributeError as error:
        return str(error)
    return None


def main() -> None:
    found = {name: second_reading(Path.cwd(), columns) for name, columns in TABLES.items()}
    Path("readings.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

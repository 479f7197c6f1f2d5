"""SQL of an attacker without a gate, inside the engine's sandbox.

`python sandbox_queries.py`, in the exchange folder: reads `queries.json` (name to SQL), writes `answers.json`: rows of each, or None
where it failed.
"""

from __future__ import annotations

import json
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.spark.session import request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings


def main() -> None:
    spark = start_spark(EngineSettings(exchange=Path.cwd(), memory_mib=512, cores=1))
    answers: dict[str, str | None] = {}
    for name, sql in json.loads(Path("queries.json").read_text()).items():
        session = request_session(spark.session)
        session.conf.set("spark.sql.runSQLOnFiles", "true")  # the gate's own switch is off too
        try:
            answers[name] = str(session.sql(sql).collect())
        except (PySparkException, Py4JError):
            answers[name] = None
    Path("answers.json").write_text(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main()

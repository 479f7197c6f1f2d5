"""Drill imports, warmed once in the process that forks all others.

Without it each of them spends more on imports and on the model of S3 than on what it does. Nothing here opens a connection or starts
a thread, which a fork would not survive.
"""

from __future__ import annotations

import importlib
import os

from odfabric.adapters.s3.client import S3Access
from odfabric_persist.location.s3_access import S3Place, s3_client
from tests.drills import scenario as scenario

LATE = (
    *(
        "alembic.command",
        "alembic.config",
        "alembic.runtime.migration",
        "psycopg",
        "sqlalchemy.dialects.postgresql.psycopg",
    ),
    *("sqlalchemy.dialects.sqlite.pysqlite", "odfabric.adapters.s3.object_store", "odfabric_persist.location.s3_blob"),
    *("odfabric_persist.location.postgres_consensus", "pyarrow.dataset", "encodings.idna"),
)
"""Modules that a node imports when it needs them."""

IMPORTED_BY = os.getpid()
"""The process that has imported them."""

NOWHERE = "http://127.0.0.1:9"

for _module in LATE:
    importlib.import_module(_module)

# The sessions behind them keep the models that they have parsed; these clients are for nobody.
S3Access(endpoint_url=NOWHERE, access_key="nobody", secret_key="nobody").client()
s3_client(S3Place(bucket="nothing", endpoint=NOWHERE, access_key="nobody", secret_key="nobody"))

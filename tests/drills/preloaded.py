"""What the processes of drills need, imported and warmed once in the process that makes all others by forking.

Without it each of them spends more on imports and on the model of S3 than on what it does. Nothing here opens a connection or starts
a thread, which a fork would not survive.
"""

from __future__ import annotations

import importlib
import os

import boto3
from botocore.config import Config

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

for _module in LATE:
    importlib.import_module(_module)

# The default session keeps the models that it has parsed; this client is for nobody.
boto3.client(
    "s3",
    endpoint_url="http://127.0.0.1:9",
    region_name="us-east-1",
    aws_access_key_id="nobody",
    aws_secret_access_key="nobody",
    config=Config(signature_version="s3v4"),
)

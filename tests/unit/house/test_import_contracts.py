"""Import contracts work: each planted violation is named.

So a contract that guards nothing is noticed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("src", "services/api/src", "services/worker/src", "services/engine-spark/src")

# What somebody in a hurry would write, where, and the contract (its name in pyproject.toml) that says no.
VIOLATIONS = {
    "a use case reaches for an adapter": (
        "src/odfabric/usecases/planted.py",
        "import odfabric.adapters.memory",
        "adapters and use cases never meet",
    ),
    "a use case writes heads itself": (
        "src/odfabric/usecases/planted.py",
        "import odfabric.ports.datasets.chain_writer",
        "One writer of heads",
    ),
    "the domain asks the clock": ("src/odfabric/domain/planted.py", "import time", "are deterministic"),
    "a format speaks SQL": ("src/odfabric/formats/planted.py", "import sqlalchemy", "The core is pure"),
    "the command line speaks SQL": ("src/odfabric/cli/planted.py", "import sqlalchemy", "SQLAlchemy and Alembic only"),
    "a use case hashes passwords itself": (
        "src/odfabric/usecases/planted.py",
        "import argon2",
        "Argon2 only in adapters.argon2",
    ),
    "a use case counts requests by the library itself": (
        "src/odfabric/usecases/planted.py",
        "import limits",
        "Counting in Redis only in adapters.redis",
    ),
    "a use case reads tokens of others itself": (
        "src/odfabric/usecases/planted.py",
        "import joserfc",
        "Tokens of others are verified in adapters.http only",
    ),
    "a library of the tests becomes one of the node": (
        "src/odfabric/wiring/planted.py",
        "import authlib",
        "Authlib comes with a provider of the tests",
    ),
    "a noun needs Arrow": ("src/odfabric/model/planted.py", "import pyarrow", "use the standard library only"),
    "the library starts Spark": ("src/odfabric/wiring/planted.py", "import pyspark", "Web and Spark libraries"),
    "a query runs on DuckDB": (
        "services/engine-spark/src/odfabric_engine_spark/sql/planted.py",
        "import duckdb",
        "DuckDB only as the second reader",
    ),
    "a use case knows the storage library": (
        "src/odfabric/usecases/planted.py",
        "import odfabric_persist",
        "The storage library is reached through adapters only",
    ),
    "the storage library knows ODF": (
        "src/odfabric_persist/planted.py",
        "import odfabric.errors",
        "the storage library knows nothing of ODF",
    ),
    "the engine knows the platform": (
        "services/engine-spark/src/odfabric_engine_spark/planted.py",
        "import odfabric.domain.ingestion.watermark",
        "The engine knows formats, not the platform",
    ),
    "a layer of the engine imports from above": (
        "services/engine-spark/src/odfabric_engine_spark/state/planted.py",
        "import odfabric_engine_spark.operators.top_n.top_n_read",
        "The engine is layered",
    ),
    "operators of the engine import each other": (
        "services/engine-spark/src/odfabric_engine_spark/operators/touched_keys/planted.py",
        "import odfabric_engine_spark.operators.top_n.top_n_read",
        "Packages and modules of the engine never import each other in a circle",
    ),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> str:
    """import-linter's report on a copy with every violation planted, on one line."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path, line, _ in VIOLATIONS.values():
        target = copy / path
        if not target.parent.is_dir():  # a layer that is one module: plant in the module itself
            target = target.parent.with_suffix(".py")
        with open(target, "a") as file:
            file.write(f"\n{line}\n")
    answer = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"],
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(copy / package) for package in PACKAGES),
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1, answer.stdout + answer.stderr
    return " ".join(line.strip() for line in answer.stdout.splitlines() if "BROKEN" in line)


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation_is_refused(violation: str, refusals: str) -> None:
    assert VIOLATIONS[violation][2] in refusals

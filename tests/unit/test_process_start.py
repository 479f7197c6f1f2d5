"""A process or command imports what it needs and nothing else."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "begins_with", ["odfabric_api.__main__", "odfabric_worker.__main__", "odfabric.cli.backends.workspace"]
)
def test_nothing_makes_an_arrow_value_at_import(begins_with: str) -> None:
    """No Arrow value is made at import: the first makes pyarrow import pandas.

    That costs more than a second where nothing needs it.
    """
    question = f"import sys, {begins_with}; print('pandas' in sys.modules, 'pyarrow' in sys.modules)"
    told = subprocess.run([sys.executable, "-P", "-c", question], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"]


def test_help_waits_for_no_library_of_a_verb() -> None:
    """Help, completion and wrong usage are immediate: verbs import when run."""
    verbs = (
        "httpx",
        "pydantic",
        "sqlalchemy",
        "pyarrow",
        "cryptography",
        "grpc",
        "ssl",
        "socket",
        "webbrowser",
        "getpass",
    )
    question = f"import sys, odfabric.cli.app; print([name for name in {verbs} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-P", "-c", question], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"

"""What every test shares: how thorough property tests are, and markers that follow from the folder."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

# No deadline per example: two cores are shared with other processes, and a slow example is not a wrong one.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders whose tests share a need mark them, so that nobody can forget it."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in {"acceptance", "perf"}:
            item.add_marker(folder)

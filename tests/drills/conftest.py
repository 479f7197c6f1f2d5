"""What drills share."""

from __future__ import annotations

import pytest

from tests.drills.drills import Prepared


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Places in which something has happened."""
    return Prepared(tmp_path_factory.mktemp("prepared"))

"""Files of a workspace that are made once, by whichever process comes first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odfabric.settings import Settings
from odfabric.wiring.places import identity


def test_two_processes_of_one_number_that_start_at_once_have_one_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers that share a workspace: each may be number 1 in its own."""
    settings, link, of_other = Settings(workspace=tmp_path), os.link, []

    def meanwhile(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        of_other.append(identity.token(settings))
        link(source, target)

    monkeypatch.setattr(os, "link", meanwhile)
    assert [identity.token(settings)] == of_other
    assert [path.name for path in tmp_path.iterdir()] == [identity.TOKEN_FILE]

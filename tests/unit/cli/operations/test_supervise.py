"""Parts of a node that do not start: what is said about it."""

from pathlib import Path

import pytest

from odfabric.cli.supervise import Supervisor
from odfabric.errors import Determinate
from odfabric.settings import Settings


def test_a_part_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path / "w")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/api.log").write_text("of an earlier run\n")
    # No machine has this address (RFC 5737), so the api cannot listen there.
    supervisor = Supervisor(settings, host="192.0.2.1", port=0, say=lambda _: None, warm_engine=False)
    with pytest.raises(Determinate, match="Cannot assign requested address") as refused, supervisor.running():
        pass
    assert refused.value.hint == "see api.log in the workspace"
    assert "ERROR" not in refused.value.message

"""docs/settings.md says what the settings are."""

from pathlib import Path

from odfabric.cli.settings_page import settings_page
from odfabric.formats.operations.settings_table import unit_of
from odfabric.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs/settings.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "run the command that the page names"


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_units_are_endings() -> None:
    assert unit_of("push_wait_s_max") == "s"
    assert unit_of("lease_s") == "s"
    assert unit_of("egress_bytes_per_s_min") == "bytes/s"
    assert unit_of("block_bytes_max") == "bytes"
    assert unit_of("job_attempts_max") == ""

"""docs/engine-settings.md and `--help` match the engine's settings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from odfabric_engine_spark.__main__ import argument_parser
from odfabric_engine_spark.process.settings_page import descriptions, settings_page
from odfabric_engine_spark.spark.settings import EngineSettings

PAGE = Path(__file__).resolve().parents[4] / "docs/engine-settings.md"
OF_THE_CLASS = {"exchange", "cache", "crash_at"}
"""No limits: the text of the class says what they are."""


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "run the command that the page names"


def test_every_setting_is_described() -> None:
    assert {one.name for one in fields(EngineSettings)} - set(descriptions()) == OF_THE_CLASS


def test_help_says_the_same() -> None:
    told = " ".join(argument_parser().format_help().split())
    assert "Largest size of rows that cannot be taken in parts" in told

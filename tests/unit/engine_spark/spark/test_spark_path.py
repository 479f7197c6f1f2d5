"""Paths as patterns: each names its own file, and what needs no escape has none."""

from pathlib import Path

import pytest

from odfabric_engine_spark.spark.frames.spark_path import spark_path


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/a b/c,d:e%20#f/x.parquet", "/a b/c,d:e%20#f/x.parquet"),
        ("/a\\b/x", "/a\\\\b/x"),
        ("/{a,b}/[c]/*?", "/\\{a\\,b\\}/\\[c\\]/\\*\\?"),
    ],
)
def test_what_means_something_in_a_pattern_is_escaped(path: str, told: str) -> None:
    assert spark_path(Path(path)) == told

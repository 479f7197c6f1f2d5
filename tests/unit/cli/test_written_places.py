"""Folders that a person names at the command: by path, or by a relative URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.cli.backends.sharing_backends import place_written


@pytest.mark.parametrize(
    ("written", "below"),
    [
        ("./shelf", "shelf"),
        (".", ""),
        ("./a/../shelf/", "shelf"),
        ("file:shelf", "shelf"),
        ("file://shelf/local", "shelf/local"),
        ("FILE://a%20b", "a b"),
    ],
)
def test_a_folder_is_kept_by_its_whole_path(
    written: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_written(written) == (tmp_path / below).as_uri()


@pytest.mark.parametrize(
    "text",
    [
        "shelf",
        "shelf/local/stations",
        "file:///shelf/local",
        "file://localhost/shelf",
        "s3://bucket/a",
        "odf+https://node.example/",
        "did:odf:fed01",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert place_written(text) == text

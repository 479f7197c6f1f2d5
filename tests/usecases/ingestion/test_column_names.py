"""Column names of a manifest are judged in place first; refusals leave nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.errors import InvalidManifest, LimitExceeded, OdfError
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.manifests import ROOT

NAME_BYTES_MAX: int = Settings.model_fields["column_name_bytes_max"].default


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def with_columns(*names: str) -> str:
    fields = "\n".join(f"        - {{name: {json.dumps(name)}, type: String}}" for name in names)
    before, _, after = ROOT.partition("        - {name: city, type: String}\n")
    return f"{before}{fields}\n{after}"


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("",), InvalidManifest),
        (("City", "cITY"), InvalidManifest),
        (("line\nend",), InvalidManifest),
        (("\u202egnp.exe",), InvalidManifest),
        (("c" * (NAME_BYTES_MAX + 1),), LimitExceeded),
    ],
)
def test_a_name_that_no_column_may_have_is_refused_where_it_stands(
    memory: MemoryNode, names: tuple[str, ...], error: type[OdfError]
) -> None:
    with pytest.raises(error) as caught:
        memory.add(with_columns(*names))
    assert caught.value.place.field is not None
    assert "metadata[0].read.schema" in caught.value.place.field
    assert memory.node.datasets.page(after=None, limit=10) == []


def test_names_of_every_script_are_kept(memory: MemoryNode) -> None:
    names = ("Straße", "город", "città di mare", "`quoted`", "c" * NAME_BYTES_MAX)
    entry = memory.add(with_columns(*names))
    source = memory.node.repository.current(entry.id)[1].push_sources[0].event
    declared = source.read.schema  # type: ignore[union-attr]
    assert [field.name for field in declared.fields][1:-1] == list(names)

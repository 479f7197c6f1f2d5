"""What datasets are searched by is what their chains say, however it was missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.domain.people.dataset_search import Narrowing, asked_label, asked_words, words_of
from odfabric.model.commit import CatalogEntry
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.datasets.search_documents import search_document
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import DERIVED, ROOT

README = "# Buoys\\nMeasured in the Baltic Sea"
DESCRIBED = f"""
  - kind: SetInfo
    description: Temperatures of cities
    keywords: [Weather, " big  City "]
  - kind: SetLicense
    shortName: CC0
    name: Creative Commons Zero
    spdxId: CC0-1.0
    websiteUrl: https://example.org/cc0
  - kind: SetAttachments
    attachments:
      kind: Embedded
      items:
      - {{path: docs/README.md, content: "{README}"}}
      - {{path: other.md, content: unread}}
"""

SCHEMA = """
  - kind: SetDataSchema
    schema:
      fields:
      - name: place
        type:
          kind: Option
          inner: {kind: Struct, fields: [{name: harbour, type: String}, {name: depths, type: {kind: List, itemType: Int32}}]}
        extra: {opendatafabric.org/description: Where lighthouses are}
"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def found(memory: MemoryNode, text: str) -> list[str]:
    narrowed = Narrowing(words=asked_words(text))
    return [str(entry.alias) for entry in memory.node.datasets.page(narrowed, after=None, limit=9)]


def push(memory: MemoryNode, entry: CatalogEntry) -> None:
    line = b'{"event_time":"2026-01-01T00:00:00Z","city":"Oslo"}\n'
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([line])))
    memory.finish(job)  # type: ignore[arg-type]


def test_everything_that_the_chain_says_is_found(memory: MemoryNode) -> None:
    entry = memory.add(ROOT + DESCRIBED)
    push(memory, entry)
    memory.node.background.relay_outbox()
    for text in (
        "readings",
        "temperat",
        "WEATHER",
        "big city",
        "creative",
        "cc0-1.0",
        "baltic buoys",
        "event_time value",
    ):
        assert found(memory, text) == [str(entry.alias)], text
    assert found(memory, "unread") == found(memory, "altic") == []
    document = search_document(entry, repository=memory.node.repository)
    assert (document.keywords, document.license, document.rows) == (("weather", "big city"), "cc0-1.0", 1)
    assert "temperatures" in document.about_words - document.name_words
    assert "baltic" in document.words - document.about_words


def test_descriptions_of_columns_and_their_members_are_found(memory: MemoryNode) -> None:
    entry = memory.add(ROOT + SCHEMA)
    memory.node.searching.follow(entry.id)
    assert found(memory, "harbour lighthouses depth") == [str(entry.alias)]


def test_what_the_relay_missed_is_caught_up(memory: MemoryNode) -> None:
    entry = memory.add(ROOT + DESCRIBED)
    assert found(memory, "baltic") == []
    assert memory.node.searching.catch_up() == 1
    assert memory.node.searching.catch_up() == 0
    assert found(memory, "baltic") == [str(entry.alias)]
    push(memory, entry)
    assert memory.node.searching.catch_up() == 1


def test_a_database_that_is_rebuilt_finds_again(memory: MemoryNode) -> None:
    entry = memory.add(ROOT + DESCRIBED)
    memory.node.background.relay_outbox()
    memory.lose_database()
    list(memory.node.objects.rebuild(adopt=False))
    memory.node.searching.catch_up()
    assert found(memory, "baltic") == [str(entry.alias)]


def test_a_chain_that_cannot_be_read_stops_no_other(memory: MemoryNode, caplog: pytest.LogCaptureFixture) -> None:
    broken, whole = memory.add(ROOT), memory.add(ROOT.replace("readings", "other"))
    memory.restart()
    for key in list(memory.objects.keys(f"{broken.id.multibase}/blocks/")):
        memory.objects.delete(key)
    assert memory.node.searching.catch_up() == 1
    memory.node.searching.follow(broken.id)
    assert "cannot be searched" in caplog.text
    assert found(memory, "other") == [str(whole.alias)]


def test_a_dataset_that_is_gone_is_nothing_to_follow(memory: MemoryNode, caplog: pytest.LogCaptureFixture) -> None:
    entry = memory.add(ROOT)
    memory.node.datasets.delete(entry)
    memory.node.searching.follow(entry.id)
    assert not caplog.records


def test_inputs_are_those_of_the_transform(memory: MemoryNode) -> None:
    source = memory.add(ROOT)
    derived = memory.add(DERIVED)
    assert search_document(derived, repository=memory.node.repository).inputs == {source.id}


def test_words_and_labels() -> None:
    assert list(words_of("Zürich, Straße — ①x_y")) == ["zurich", "strasse", "1x", "y"]
    assert asked_words("a A b" + " c" * 5 + " ".join(map(str, range(20))))[:3] == ("a", "b", "c")
    assert len(asked_words(" ".join(map(str, range(20))))) == 10
    assert [len(word) for word in words_of("x" * 100)] == [64]
    assert asked_label("  Open\tData\x00 ") == "open data"
    with pytest.raises(ValueError, match="asked_words"):
        Narrowing(words=('" OR words:x',))

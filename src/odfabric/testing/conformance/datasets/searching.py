"""Contract of Catalog search (words, facets, order) and SearchDocuments.

A subclass gives `storage`, new and empty for each test. The oracle of the law of matching knows nothing of the rules of `domain.people.dataset_search`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.domain.people.dataset_search import Narrowing, Order, SearchDocument, asked_words, words_of
from odfabric.model.commit import OutboxMessage
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.metadata import DatasetKind
from odfabric.testing.conformance.examples import GrowingChain, StoragePorts, entry_of, hash_of, later, new_chain

SIGNS = "aAbß\u00e9\u0065\u0301É0٣漢 \t%_*\"'`:&|!()^~+-.,/\\{}<>;?#@$=\x00\u200b"
"""Letters in several writings, digits, and signs that mean something in some query language."""

_PLAIN = {"A": "a", "ß": "ss", "é": "e", "É": "e", "\u0301": ""}


def plainly(text: str) -> list[str]:
    """Words of a text of `SIGNS`."""
    plain = "".join(_PLAIN.get(sign, sign) for sign in text)
    return "".join(sign if sign in "abse0٣漢" else " " for sign in plain).split()


def document_of(chain: GrowingChain, text: str = "", *, about: str = "", **values: object) -> SearchDocument:
    """The document of a dataset at its head."""
    assert chain.head is not None
    name = frozenset(words_of(str(chain.entry.alias)))
    about_words = name | frozenset(words_of(about))
    words = about_words | frozenset(words_of(text))
    document = SearchDocument(dataset=chain.id, head=chain.head, name_words=name, about_words=about_words, words=words)
    return replace(document, **values)  # type: ignore[arg-type]


def put(storage: StoragePorts, name: str, text: str = "", **values: object) -> GrowingChain:
    """A dataset `account/name` with its document."""
    account, _, short = name.rpartition("/")
    chain = new_chain(storage.chains, short, account=account or "local")
    assert storage.search_documents.put(document_of(chain, text, **values))  # type: ignore[arg-type]
    return chain


def found(storage: StoragePorts, narrowed: Narrowing, order: Order = Order.NAME) -> list[str]:
    """Names of what is found."""
    return [str(entry.alias) for entry in storage.catalog.found(narrowed, order=order, limit=99)]


def searched(storage: StoragePorts, text: str) -> list[str]:
    """Names of what is found by words."""
    return found(storage, Narrowing(words=asked_words(text)))


class SearchContract:
    """Finding, counting, and keeping documents."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_words_begin_words_and_all_must(self, storage: StoragePorts) -> None:
        put(storage, "a/Bus.Stops", "Where buses stop in Zürich")
        put(storage, "a/trams-50", "Trams; by the hour")
        assert searched(storage, "BUS") == searched(storage, "stop zuri") == ["a/Bus.Stops"]
        assert searched(storage, "a hour") == ["a/trams-50"]
        assert searched(storage, "us") == searched(storage, "bus tram") == []
        assert len(searched(storage, "")) == len(searched(storage, '%*":&-')) == 2
        assert searched(storage, "50% OR") == []
        assert searched(storage, "trams/50") == ["a/trams-50"]

    def test_what_matches_is_what_a_plain_search_finds(self, storage: StoragePorts) -> None:
        texts = st.text(SIGNS, max_size=12)
        chains = [new_chain(storage.chains, f"d{number}", account="x") for number in range(4)]

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(texts, min_size=4, max_size=4), st.lists(texts, min_size=1, max_size=6))
        def holds(documents: list[str], asked: list[str]) -> None:
            for chain, text in zip(chains, documents, strict=True):
                assert storage.search_documents.put(document_of(chain, text))
            for query in asked:
                expected = [
                    str(chain.entry.alias)
                    for chain, text in zip(chains, documents, strict=True)
                    if all(any(word.startswith(begin) for word in plainly(text)) for begin in plainly(query))
                ]
                assert searched(storage, query) == expected

        holds()

    def test_the_name_is_a_better_match_than_the_description_and_that_than_the_rest(
        self, storage: StoragePorts
    ) -> None:
        put(storage, "a/other", "bus")
        put(storage, "a/trams", about="trams and buses")
        put(storage, "a/bus-stops")
        put(storage, "a/bus-lines")
        ordered = found(storage, Narrowing(words=("bus",)), Order.BEST)
        assert ordered[2:] == ["a/trams", "a/other"]
        assert set(ordered[:2]) == {"a/bus-lines", "a/bus-stops"}
        assert found(storage, Narrowing(), Order.BEST) == found(storage, Narrowing(), Order.NEWEST)

    def test_orders(self, storage: StoragePorts) -> None:
        chains = {name: put(storage, f"a/{name}", rows=rows) for name, rows in (("x", 3), ("y", 500), ("z", 20))}
        for name in ("z", "x"):
            chains[name].grow()
        chains["y"].grow(3)
        assert found(storage, Narrowing(), Order.NAME) == ["a/x", "a/y", "a/z"]
        assert found(storage, Narrowing(), Order.ROWS) == ["a/y", "a/z", "a/x"]
        assert found(storage, Narrowing(), Order.SIZE)[0] == "a/y"
        times = [storage.chains.head(chains[name[2:]].id) for name in found(storage, Narrowing(), Order.NEWEST)]
        moments = [head.system_time for head in times if head is not None]
        assert moments == sorted(moments, key=lambda moment: moment.epoch_ns, reverse=True)
        every = storage.catalog.found(order=Order.NEWEST, limit=9)
        assert storage.catalog.found(order=Order.NEWEST, skip=1, limit=1) == every[1:2]

    def test_newest_looks_at_parts_of_seconds(self, storage: StoragePorts) -> None:
        for name, text in (("whole", "2026-03-01T12:00:00Z"), ("half", "2026-03-01T12:00:00.5Z")):
            chain = GrowingChain(storage.chains, entry_of(name, account="a"))
            (block,) = chain.next_blocks()
            moved = replace(block, block=replace(block.block, system_time=Instant.parse(text)))
            storage.chains.append(
                chain.id, expected=None, blocks=[moved], message=chain.message([moved]), entry=chain.entry
            )
        assert found(storage, Narrowing(), Order.NEWEST) == ["a/half", "a/whole"]

    def test_a_page_is_narrowed_by_every_condition(self, storage: StoragePorts) -> None:
        put(storage, "a/one", keywords=("sea", "tide"), license="cc-by-4.0")
        put(storage, "b/two", keywords=("sea",), license="odbl-1.0")
        new_chain(storage.chains, "three", account="a")
        for narrowed, names in [
            (Narrowing(account=Name("A")), ["a/one", "a/three"]),
            (Narrowing(account=Name("c")), []),
            (Narrowing(kind=DatasetKind.ROOT), ["a/one", "a/three", "b/two"]),
            (Narrowing(kind=DatasetKind.DERIVATIVE), []),
            (Narrowing(keyword="sea"), ["a/one", "b/two"]),
            (Narrowing(keyword="se"), []),
            (Narrowing(license="odbl-1.0"), ["b/two"]),
            (Narrowing(keyword="sea", account=Name("a"), words=("on",)), ["a/one"]),
        ]:
            assert found(storage, narrowed) == names
            assert [str(entry.alias) for entry in storage.catalog.page(narrowed, limit=9)] == names
            assert storage.catalog.facets(narrowed, since=(), limit=9).total == len(names)
        after = DatasetAlias(Name("a"), Name("one"))
        page = storage.catalog.page(Narrowing(keyword="sea"), after=after, limit=9)
        assert [str(entry.alias) for entry in page] == ["b/two"]

    def test_what_changed_since_is_told_by_the_second(self, storage: StoragePorts) -> None:
        chain = put(storage, "a/one")
        head = storage.chains.head(chain.id)
        assert head is not None
        second = Instant(head.system_time.epoch_ns // NANOS_PER_SECOND * NANOS_PER_SECOND)
        after = Instant(second.epoch_ns + NANOS_PER_SECOND)
        assert found(storage, Narrowing(changed_since=second)) == ["a/one"]
        assert found(storage, Narrowing(changed_since=after)) == []
        assert storage.catalog.facets(Narrowing(), since=[after, second], limit=1).changed == [0, 1]

    def test_facets_count_what_is_found_the_most_frequent_first(self, storage: StoragePorts) -> None:
        put(storage, "B/one", keywords=("sea", "tide"), license="cc-by-4.0")
        put(storage, "b/two", keywords=("sea", "air"), license="cc-by-4.0")
        put(storage, "a/three", keywords=("air", "sea"), license="odbl-1.0")
        new_chain(storage.chains, "four", account="a")
        facets = storage.catalog.facets(Narrowing(), since=(), limit=2)
        assert (facets.total, facets.kinds, facets.changed) == (4, [(DatasetKind.ROOT, 4)], [])
        assert facets.accounts == [(Name("a"), 2), (Name("b"), 2)]
        assert facets.keywords == [("sea", 3), ("air", 2)]
        assert facets.licenses == [("cc-by-4.0", 2), ("odbl-1.0", 1)]
        narrow = storage.catalog.facets(Narrowing(words=("th",)), since=(), limit=9)
        assert (narrow.total, narrow.keywords, narrow.licenses) == (1, [("air", 1), ("sea", 1)], [("odbl-1.0", 1)])
        none = storage.catalog.facets(Narrowing(words=("nothing",)), since=[later(0)], limit=9)
        assert (none.total, none.kinds, none.accounts, none.keywords, none.changed) == (0, [], [], [], [0])

    def test_a_document_is_stored_at_the_head_only_and_replaced(self, storage: StoragePorts) -> None:
        chain = put(storage, "a/one", "old words", keywords=("old",), license="old")
        stale = document_of(chain, "stale")
        chain.grow()
        assert not storage.search_documents.put(stale)
        assert searched(storage, "old") == ["a/one"]
        assert storage.search_documents.put(document_of(chain, "new", keywords=("new", "newer")))
        assert searched(storage, "old") == found(storage, Narrowing(keyword="old")) == []
        assert searched(storage, "new") == found(storage, Narrowing(keyword="new")) == ["a/one"]
        assert storage.catalog.facets(Narrowing(), since=(), limit=9).licenses == []
        unknown = replace(stale, dataset=entry_of("nothing").id)
        assert not storage.search_documents.put(unknown)

    def test_a_document_goes_with_its_dataset(self, storage: StoragePorts) -> None:
        chain = put(storage, "a/one", "words", keywords=("sea",))
        chain.remove()
        assert searched(storage, "words") == found(storage, Narrowing(keyword="sea")) == []
        again = GrowingChain(storage.chains, chain.entry)
        again.grow(label="again")
        assert searched(storage, "words") == []
        assert storage.search_documents.behind(version=1, limit=9) == [again.id]

    def test_what_is_behind_is_told_in_pages(self, storage: StoragePorts) -> None:
        fresh, moved, old = (
            put(storage, f"a/{name}", version=version) for name, version in [("x", 2), ("y", 2), ("z", 1)]
        )
        moved.grow()
        without = new_chain(storage.chains, "w", account="a")
        expected = sorted([moved.id, old.id, without.id], key=lambda dataset: dataset.multibase)
        seen: list[DatasetId] = []
        while page := storage.search_documents.behind(version=2, after=seen[-1] if seen else None, limit=2):
            seen += page
        assert seen == expected
        assert storage.search_documents.behind(version=1, limit=9) == [each for each in expected if each != old.id]
        assert fresh.id not in seen

    def test_readers_are_those_that_read_it_and_those_that_might(self, storage: StoragePorts) -> None:
        source = put(storage, "a/source")
        made: dict[str, GrowingChain] = {}
        for name, inputs in (("reads", {source.id}), ("other", {entry_of("else").id}), ("moved", set()), ("new", None)):
            entry = replace(entry_of(name, account="a"), kind=DatasetKind.DERIVATIVE)
            made[name] = GrowingChain(storage.chains, entry)
            made[name].grow()
            if inputs is not None:
                assert storage.search_documents.put(document_of(made[name], inputs=frozenset(inputs)))
        made["moved"].grow()
        new_chain(storage.chains, "root-without-document", account="a")
        assert found(storage, Narrowing(may_read=source.id)) == ["a/moved", "a/new", "a/reads"]

    def test_a_head_that_is_not_there_stores_nothing(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        assert not storage.search_documents.put(replace(document_of(chain), head=hash_of("elsewhere")))
        assert storage.search_documents.behind(version=1, limit=9) == [chain.id]
        assert chain.head is not None
        storage.chains.remove(
            chain.id, expected=chain.head, message=OutboxMessage(chain.id, chain.head, None, later(1))
        )
        assert storage.search_documents.behind(version=1, limit=9) == []

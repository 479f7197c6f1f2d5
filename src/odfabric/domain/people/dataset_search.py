"""What a search of datasets is: words, matching, narrowing, order and counts.

Owns how a text becomes words, which is the same for what is searched and for what is looked for, so that every adapter finds the same.
Invariant: a word has letters, digits and marks only, in one case and without accents, so no sign of a query language survives. A dataset
matches if each word that is looked for begins one of its words. Not here: where the text comes from (`usecases.datasets.search_documents`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from odfabric.domain.people.access import Viewer
from odfabric.model.identity import DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash

WORD_CHARACTERS_MAX = 64
"""Longer words are cut, in texts and in what is looked for."""
LABEL_CHARACTERS_MAX = 100
WORDS_ASKED_MAX = 10
DOCUMENT_WORDS_MAX = 5000
"""Different words of one dataset that can be found."""
DOCUMENT_VERSION = 1
"""Grows when the text of a chain becomes other words; documents of an older version are derived again."""


def words_of(text: str) -> Iterator[str]:
    """The words of a text in order: letters, digits and marks, case- and accent-free."""
    word: list[str] = []
    for sign in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()):
        if unicodedata.combining(sign):
            continue
        if unicodedata.category(sign)[0] in "LNM":
            word.append(sign)
        elif word:
            yield "".join(word[:WORD_CHARACTERS_MAX])
            word = []
    if word:
        yield "".join(word[:WORD_CHARACTERS_MAX])


def asked_words(text: str) -> tuple[str, ...]:
    """The first words of what somebody typed, each once."""
    return tuple(dict.fromkeys(words_of(text)))[:WORDS_ASKED_MAX]


def asked_label(text: str) -> str:
    """A keyword or licence as counted and sought: no case, single spaces, cut."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\x00", "")
    return " ".join(folded.split())[:LABEL_CHARACTERS_MAX]


def matches(asked: Iterable[str], words: Collection[str]) -> bool:
    """Whether each word that is looked for begins one of `words`."""
    return all(any(word.startswith(begin) for word in words) for begin in asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """What a chain says at `head` to those who search.

    A projection, which can be derived again at any time.

    `name_words` are some of `about_words` (and of description and keywords), and these are some of `words`. `keywords` and `license` are labels
    (`asked_label`); `inputs` are the datasets that the transform in force reads.
    """

    dataset: DatasetId
    head: Multihash
    version: int = DOCUMENT_VERSION
    name_words: frozenset[str]
    about_words: frozenset[str]
    words: frozenset[str]
    keywords: tuple[str, ...] = ()
    license: str | None = None
    inputs: frozenset[DatasetId] = frozenset()
    rows: int = 0


class Order(Enum):
    """How what is found is ordered; what is equal goes by account and name.

    BEST: datasets that have all words in the name, then those that have them in name, description and keywords; each newest first.
    """

    BEST = "best"
    NEWEST = "newest"
    NAME = "name"
    ROWS = "rows"
    SIZE = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Which datasets are looked for: all that fulfil every condition which is set.

    `words` come from `asked_words`, `keyword` and `license` from `asked_label`. `changed_since` is compared by whole seconds. `may_read` are derivative datasets that have that
    dataset for an input, and those whose document is behind their head, which might. `viewer` admits what somebody may read.
    """

    account: Name | None = None
    kind: DatasetKind | None = None
    words: tuple[str, ...] = ()
    keyword: str | None = None
    license: str | None = None
    changed_since: Instant | None = None
    may_read: DatasetId | None = None
    viewer: Viewer | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for words that `asked_words` did not make.

        Adapters put them into queries.
        """
        if any(list(words_of(word)) != [word] for word in self.words):
            raise ValueError("words of a search are made by asked_words")


EVERYTHING = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """How many datasets there are of each kind, account, keyword and licence.

    `changed` goes with the times that were asked for.

    Counts of values are in order of count, then value, the largest first, and not more than were asked for.
    """

    total: int
    kinds: Sequence[tuple[DatasetKind, int]]
    accounts: Sequence[tuple[Name, int]]
    keywords: Sequence[tuple[str, int]]
    licenses: Sequence[tuple[str, int]]
    changed: Sequence[int]

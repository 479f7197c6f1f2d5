"""Who has which name, for all who share the objects.

Owns the texts below `names/` and `info/alias`. A dataset exists under a name when three registers agree: the name says the dataset,
the dataset's `info/alias` says the name, and its `refs/head` refers to a block, which is written last and is the moment at which
it begins to exist. Invariant: a name, or the alias of a dataset, is taken from anyone who was about to use it only after their
`refs/head` was closed, so that of all who want it one makes a dataset, and nobody who died keeps it from others. Source: ADR 0021.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from odfabric.adapters.object_heads.head_refs import HeadRefs
from odfabric.errors import AlreadyExists, Determinate, InvalidName
from odfabric.formats.identifiers.dataset_layout import NAMES, alias_key, name_key
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.ports.datasets.object_store import ObjectStore

ATTEMPTS_MAX = 20


class _Overtaken(Exception):
    """A register was changed since it was read: look again."""


@dataclass(frozen=True, slots=True)
class NamedDataset:
    """Who has a name, and where it is copied from if it is a copy."""

    dataset: DatasetId
    remote_url: str | None = None

    def __str__(self) -> str:
        return f"{self.dataset} {self.remote_url or ''}".rstrip()


class SharedNames:
    """The names of a store."""

    def __init__(self, objects: ObjectStore, heads: HeadRefs) -> None:
        self._objects = objects
        self._heads = heads

    def used(self) -> Iterator[str]:
        """Keys of names that are or were in use."""
        return self._objects.keys(f"{NAMES}/")

    def at(self, key: str) -> NamedDataset | None:
        """Who has the name of that key."""
        return _named(self._objects.read_ref(key))

    def owner(self, alias: DatasetAlias) -> NamedDataset | None:
        """Who has the name; it may be only about to use it."""
        return self.at(name_key(alias))

    def of(self, dataset: DatasetId) -> tuple[DatasetAlias, NamedDataset] | None:
        """The name of a dataset, if both say so."""
        alias = self._alias(dataset)
        owner = self.owner(alias) if alias is not None else None
        return (alias, owner) if alias is not None and owner is not None and owner.dataset == dataset else None

    def claim(self, entry: CatalogEntry) -> str | None:
        """Prepare a new dataset.

        Returns the text of its `refs/head` that its first head has to replace.

        Raises AlreadyExists; Determinate if others do the same all the time.
        """
        for _ in range(ATTEMPTS_MAX):
            with suppress(_Overtaken):
                return self._claim(entry)
        raise Determinate(f"other nodes are just making a dataset with the name {entry.alias}", hint="do it again")

    def _claim(self, entry: CatalogEntry) -> str | None:
        head = self._heads.read(entry.id)
        if head.hash is not None:
            raise AlreadyExists(f"dataset {entry.id} exists already", hint="pull it, or delete it first")
        before = self._claim_alias(entry, head.text)
        self._claim_name(entry)
        return before

    def claim_again(self, entry: CatalogEntry) -> None:
        """Say that a dataset which exists has its name, if nobody has said it.

        Raises AlreadyExists.
        """
        with suppress(_Overtaken):
            self._claim_name(entry)

    def _claim_name(self, entry: CatalogEntry) -> None:
        key, text = name_key(entry.alias), str(NamedDataset(entry.id, entry.remote_url))
        found = self._objects.read_ref(key)
        if found == text:
            return
        owner = _named(found)
        if owner is not None and owner.dataset != entry.id:
            self._take_from(owner.dataset, entry.alias)
        if not self._objects.replace_ref(key, text, expected=found):
            raise _Overtaken

    def release(self, alias: DatasetAlias, dataset: DatasetId) -> None:
        """Leave the name to others, if it is this dataset's."""
        key = name_key(alias)
        found = self._objects.read_ref(key)
        owner = _named(found)
        if owner is not None and owner.dataset == dataset:
            # Emptied, not deleted: a deletion knows no condition and might meet the next owner.
            self._objects.replace_ref(key, "", expected=found)

    def _claim_alias(self, entry: CatalogEntry, before: str | None) -> str | None:
        key, text = alias_key(entry.id), str(entry.alias)
        found = self._objects.read_ref(key)
        if found == text:
            return before
        if found is not None:
            before = self._closed(entry.id, before)
        if not self._objects.replace_ref(key, text, expected=found):
            raise _Overtaken
        return before

    def _take_from(self, other: DatasetId, alias: DatasetAlias) -> None:
        """Make sure that a name will not be used by `other`.

        Raises AlreadyExists if it is.
        """
        head = self._heads.read(other)
        if head.hash is None:
            self._closed(other, head.text)
        elif self._alias(other) == alias:
            raise AlreadyExists(f"a dataset with the name {alias} exists already", hint="choose another name")

    def _closed(self, dataset: DatasetId, before: str | None) -> str:
        text = self._heads.close(dataset, before=before)
        if text is None:
            raise _Overtaken
        return text

    def _alias(self, dataset: DatasetId) -> DatasetAlias | None:
        try:
            alias = parse_dataset_alias((self._objects.read_ref(alias_key(dataset)) or "").strip())
        except InvalidName:
            return None
        return alias if alias.account is not None else None


def _named(text: str | None) -> NamedDataset | None:
    dataset, _, url = (text or "").partition(" ")
    try:
        return NamedDataset(parse_dataset_id(dataset), url or None) if dataset else None
    except InvalidName:
        return None

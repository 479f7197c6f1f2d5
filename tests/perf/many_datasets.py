"""Makes many datasets in a workspace quickly.

Blocks are valid and stored as files, heads are moved by the adapter.

Words come from a vocabulary in which a few are frequent, as in texts of people. Half of the datasets are public, one in ten is a derivative.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.formats.identifiers.dataset_layout import block_key
from odfabric.model.commit import CatalogEntry, OutboxMessage
from odfabric.model.data_schema import DataField, DataTypeInt64
from odfabric.model.identity import AccountName, DatasetAlias, DatasetId, Name
from odfabric.model.metadata import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DatasetKind,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
)
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant
from odfabric.testing.chains import ChainBuilder, example_id, example_schema, example_transform
from odfabric.usecases.people.accounts import create_account
from odfabric.wiring import Node

VOCABULARY = [
    f"{first}{middle}{last}"
    for first in "bcdfgklmnprst"
    for middle in ("a", "ei", "o", "u")
    for last in ("rt", "lm", "nd", "ss", "k")
]
LICENSES = ("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "ODbL-1.0", "PDDL-1.0")
YEAR_MS = 365 * 86_400_000


class ManyDatasets:
    """Makes datasets `station-00000`, `station-00001`, ... in turn under `accounts`."""

    def __init__(self, node: Node, objects: Path, accounts: Sequence[Name]) -> None:
        self._node = node
        self._objects = objects
        self._accounts: Sequence[AccountName] = accounts
        self._chance = random.Random(7)
        self._roots: list[DatasetId] = []

    def make(self, number: int) -> None:
        """Commit the dataset of a number, whole."""
        name = f"station-{number:05}"
        is_derivative = number % 10 == 9
        kind = DatasetKind.DERIVATIVE if is_derivative else DatasetKind.ROOT
        chain = ChainBuilder(kind, dataset_id=example_id(name))
        dataset = example_id(name)
        self._fill(chain, name, is_derivative=is_derivative)
        if not is_derivative:
            self._roots.append(dataset)
        for encoded in chain.blocks:
            path = self._objects / block_key(dataset, encoded.hash)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded.data)
        account = self._accounts[number % len(self._accounts)]
        last = chain.blocks[-1]
        public = [Grant(dataset=dataset, grantee=EVERYONE, role=DatasetRole.READER, version=1)]
        self._node.ports.chains.append(
            dataset,
            expected=None,
            blocks=chain.blocks,
            message=OutboxMessage(dataset, None, last.hash, last.block.system_time),
            entry=CatalogEntry(dataset, DatasetAlias(account, Name(name)), kind, chain.blocks[0].block.system_time),
            grants=public if number % 2 else [],
        )

    def _fill(self, chain: ChainBuilder, name: str, *, is_derivative: bool) -> None:
        license = self._chance.choice(LICENSES)
        readme = AttachmentEmbedded(path="README.md", content=f"# {name}\n\n" + " ".join(self._words(150)))
        columns = [DataField(name="_".join(self._words(2)) + f"_{each}", type=DataTypeInt64()) for each in range(8)]
        chain.append(SetInfo(description=" ".join(self._words(12)), keywords=tuple(self._words(3))))
        chain.append(SetLicense(short_name=license, name=license, spdx_id=license, website_url="https://example.org"))
        chain.append(SetAttachments(attachments=AttachmentsEmbedded(items=(readme,))))
        if is_derivative:
            chain.append(example_transform(self._chance.choice(self._roots[:100])))
        chain.append(SetDataSchema(schema=example_schema(*columns)), after_ms=self._chance.randrange(YEAR_MS))
        if not is_derivative:
            rows = self._chance.randrange(1, 10_000)
            chain.append(chain.next_add_data(rows), after_ms=self._chance.randrange(YEAR_MS))

    def _words(self, count: int) -> list[str]:
        """The first words of the vocabulary are the most frequent."""
        places = (int(len(VOCABULARY) * self._chance.random() ** 2.5) for _ in range(count))
        return [VOCABULARY[place] for place in places]


def local_and_others(node: Node, count: int) -> list[Name]:
    """The local account and `count` new ones."""
    names = [f"bench-{number:02}" for number in range(count)]
    for name in names:
        create_account(name, display_name=None, email=None, subject=node.operator, ports=node.people)
    return [LOCAL_ACCOUNT, *map(Name, names)]

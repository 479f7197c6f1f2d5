"""Names of datasets elsewhere, with the questions that nodes are asked on the way.

Repositories and their rights.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.memory.transfer.nodes import MemoryPeer
from odfabric.domain.people.access import STRANGER
from odfabric.errors import (
    AccessDenied,
    AlreadyExists,
    AmbiguousRepository,
    EmptyRepositoryList,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    UnsupportedProtocol,
)
from odfabric.model.identity import Name
from odfabric.ports.transfer.nodes import FoundDataset
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.manifests import ROOT

NODE = "odf+https://node.example/"
DID = "did:odf:fed012126262ba49e1ba8392c26f7a39e1ba8d756c7469786d3365200c68402ff65dc"


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def add(memory: MemoryNode, name: str, url: str, *, shared: bool = False) -> None:
    memory.node.sharing.repositories.add(name, url, shared=shared, by=memory.node.operator)


def source(memory: MemoryNode, text: str) -> str:
    return memory.node.sharing.names.source_url(text, memory.node.operator)


class TestSources:
    def test_a_name_is_the_url_below_its_repository(self, memory: MemoryNode) -> None:
        add(memory, "shelf", "s3://bucket/shelf")
        assert source(memory, "shelf/bob/flights") == "s3://bucket/shelf/bob/flights/"
        assert source(memory, "SHELF/flights") == "s3://bucket/shelf/flights/"
        assert source(memory, "https://elsewhere.example/x") == "https://elsewhere.example/x"

    def test_a_missing_account_is_that_of_the_token(self, memory: MemoryNode) -> None:
        add(memory, "node", NODE)
        memory.peers.peers[NODE] = MemoryPeer(own_account=Name("carol"))
        assert source(memory, "node/flights") == f"{NODE}carol/flights/"
        assert source(memory, "node/bob/flights") == f"{NODE}bob/flights/"
        memory.peers.peers[NODE] = MemoryPeer(own_account=None)
        with pytest.raises(InvalidRequest, match="nobody is logged in there") as refused:
            source(memory, "node/flights")
        assert "`odf login https://node.example`" in str(refused.value.hint)
        assert "node/ACCOUNT/flights" in str(refused.value.hint)
        memory.peers.peers[NODE] = MemoryPeer(has_accounts=False, own_account=Name("carol"))
        assert source(memory, "node/flights") == f"{NODE}flights/"

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("flights", InvalidRequest),
            ("nowhere/flights", NotFound),
            ("nowhere/bob/flights", NotFound),
            (DID, InvalidRequest),
            (f"shelf/{DID}", InvalidRequest),
            ("ipfs://abc", UnsupportedProtocol),
        ],
    )
    def test_what_is_no_dataset_elsewhere_is_refused_with_a_way_out(
        self, memory: MemoryNode, text: str, kind: type[OdfError]
    ) -> None:
        with pytest.raises(kind) as refused:
            source(memory, text)
        assert refused.value.hint

    def test_two_parts_are_remote_if_the_first_is_a_repository(self, memory: MemoryNode) -> None:
        names, by = memory.node.sharing.names, memory.node.operator
        assert [names.is_remote(text, by) for text in ("a", "local/a", "x/y/z", "https://x/")] == [
            False,
            False,
            True,
            True,
        ]
        add(memory, "local", "s3://bucket/")
        assert names.is_remote("local/a", by)


class TestTargets:
    def test_the_only_repository_then_the_only_alias(self, memory: MemoryNode) -> None:
        entry, names, by = memory.add(ROOT), memory.node.sharing.names, memory.node.operator
        with pytest.raises(EmptyRepositoryList):
            names.push_target(entry, None, by)
        add(memory, "shelf", "s3://bucket/")
        found = names.push_target(entry, None, by)
        assert (found.url, found.alias) == ("s3://bucket/local/readings/", "shelf/local/readings")
        add(memory, "attic", "s3://attic/", shared=True)
        with pytest.raises(AmbiguousRepository):
            names.push_target(entry, None, by)
        assert names.push_target(entry, "attic", by).url == "s3://attic/local/readings/"
        assert names.push_target(entry, "attic/other", by).url == "s3://attic/other/"

    def test_a_node_knows_the_name_that_a_dataset_has_there(self, memory: MemoryNode) -> None:
        entry, names, by = memory.add(ROOT), memory.node.sharing.names, memory.node.operator
        add(memory, "node", NODE)
        memory.peers.peers[NODE] = MemoryPeer(own_account=Name("carol"))
        assert names.push_target(entry, None, by).url == f"{NODE}carol/readings/"
        memory.peers.peers[NODE].names[entry.id] = Name("measured")
        assert names.push_target(entry, "node", by).alias == "node/carol/measured"


class TestRepositories:
    def test_they_are_of_an_account_or_of_the_node(self, memory: MemoryNode) -> None:
        verbs, by = memory.node.sharing.repositories, memory.node.operator
        add(memory, "shelf", "s3://own/")
        add(memory, "shelf", "s3://shared/", shared=True)
        assert [each.url for each in verbs.listed(by=by)] == ["s3://own/", "s3://shared/"]
        with pytest.raises(AlreadyExists):
            add(memory, "Shelf", "s3://other/")
        verbs.remove("shelf", shared=False, by=by)
        assert source(memory, "shelf/x") == "s3://shared/x/"
        with pytest.raises(NotFound):
            verbs.remove("shelf", shared=False, by=by)
        memory.settings = memory.settings.model_copy(update={"repositories_per_account_max": 1})
        memory.restart()
        with pytest.raises(LimitExceeded):
            add(memory, "another", "s3://bucket/", shared=True)

    def test_strangers_have_none(self, memory: MemoryNode) -> None:
        verbs = memory.node.sharing.repositories
        for act in (
            lambda: verbs.listed(by=STRANGER),
            lambda: verbs.add("shelf", "s3://b/", shared=False, by=STRANGER),
            lambda: verbs.add("shelf", "s3://b/", shared=True, by=STRANGER),
            lambda: memory.node.sharing.search("shelf", "", by=STRANGER),
        ):
            with pytest.raises(OdfError) as refused:
                act()
            assert refused.value.code in ("unauthenticated", AccessDenied.code)

    def test_a_repository_is_searched(self, memory: MemoryNode) -> None:
        add(memory, "shelf", "file:///shelf")
        for path in ("bob/flights", "bob/weather", "bare"):
            memory.remote_stores.open(f"file:///shelf/{path}", writes=True)
        found = memory.node.sharing.search("shelf", "FL", by=memory.node.operator)
        assert [each["alias"] for each in found] == ["shelf/bob/flights"]
        add(memory, "node", NODE)
        memory.peers.peers[NODE] = MemoryPeer(
            found=[FoundDataset(alias="bob/flights", id=DID, kind="Root"), FoundDataset(alias="bad name!")]
        )
        found = memory.node.sharing.search("node", "", by=memory.node.operator)
        assert found == [{"alias": "node/bob/flights", "id": DID, "kind": "Root"}]

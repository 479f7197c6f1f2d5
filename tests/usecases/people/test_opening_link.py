"""The link of `odf up`: once, for minutes, and as the operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.errors import NotFound, TokenRevoked
from odfabric.model.people.credential import TokenKind
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.people.opening_link import issue_opening_link, use_opening_link
from odfabric.usecases.people.tokens import authenticate_session
from tests.services.api.people import People


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def code_of(memory: MemoryNode) -> str:
    code = issue_opening_link(ports=memory.node.people)
    assert code is not None
    return code


def test_it_makes_a_session_of_the_operator_s_once(memory: MemoryNode) -> None:
    ports = memory.node.people
    code = code_of(memory)
    account, issued = use_opening_link(code, device="browser", address=None, ports=ports)
    assert account.name == LOCAL_ACCOUNT
    assert authenticate_session(issued.text, ports=ports).administers
    with pytest.raises(NotFound):
        use_opening_link(code, device="browser", address=None, ports=ports)
    with pytest.raises(TokenRevoked):
        authenticate_session(code, ports=ports)


def test_it_works_for_minutes(memory: MemoryNode) -> None:
    code = code_of(memory)
    memory.clock.advance(int(memory.settings.opening_link_s * 1000) + 1)
    with pytest.raises(NotFound, match="link"):
        use_opening_link(code, device="browser", address=None, ports=memory.node.people)


@pytest.mark.parametrize("kind", [TokenKind.SESSION, TokenKind.PERSONAL])
def test_no_other_token_is_such_a_link(tmp_path: Path, kind: TokenKind) -> None:
    people = People(tmp_path)
    _, text = people.issue("ann", kind=kind)
    for code in (text, "", "nonsense"):
        with pytest.raises(NotFound):
            use_opening_link(code, device="browser", address=None, ports=people.ports)

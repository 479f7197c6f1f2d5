"""Access tokens: what they may be, how far they go, how they end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import (
    AccessDenied,
    AccountSuspended,
    InvalidRequest,
    NotFound,
    OdfError,
    TokenChecksumWrong,
    TokenExpired,
    TokenMalformed,
    TokenRevoked,
    TokenUnknown,
    Unauthenticated,
)
from odfabric.formats.secrets.access_token import make
from odfabric.model.instant import Instant
from odfabric.model.people.credential import Scope, TokenKind
from odfabric.usecases.people.accounts import set_admin, set_suspended
from odfabric.usecases.people.organisations import list_members
from odfabric.usecases.people.tokens import (
    IssuedToken,
    NewToken,
    authenticate,
    create_token,
    inspect_token,
    list_tokens,
    revoke_token,
)
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.people.conftest import People

READ, PUSH, MANAGE, ADMIN = Scope
DAY_MS = 24 * 3600 * 1000


def token(people: People, *scopes: Scope, of: Subject | None = None, **other: object) -> IssuedToken:
    wanted = replace(NewToken(name="test", scopes=frozenset(scopes or {READ})), **other)  # type: ignore[arg-type]
    return create_token(wanted, subject=of or people.subject("ann"), ports=people.ports)


def test_whoever_holds_a_token_is_its_account_within_its_bounds(people: People) -> None:
    issued = token(people, PUSH)
    subject = authenticate(issued.text, ports=people.ports)
    assert (subject.account, subject.scopes, subject.token) == (people.account("ann"), {PUSH}, issued.token.id)
    entry, access = people.add("ann"), people.memory.node.access
    access.require(subject, Action.PUSH, entry)
    for action in (Action.READ, Action.WRITE, Action.SHARE, Action.DELETE):
        with pytest.raises(AccessDenied):
            access.require(subject, action, entry)


def test_a_token_for_some_datasets_does_not_know_the_others(people: People) -> None:
    mine, other = people.add("ann", "mine"), people.add("ann", "other")
    narrow = authenticate(token(people, MANAGE, datasets=frozenset({mine.id})).text, ports=people.ports)
    access = people.memory.node.access
    access.require(narrow, Action.DELETE, mine)
    with pytest.raises(NotFound):
        access.require(narrow, Action.READ, other)
    assert [entry.id for entry in people.memory.node.datasets.page(by=narrow, after=None, limit=10)] == [mine.id]
    with pytest.raises(AccessDenied):
        access.require_here(narrow, Action.CREATE, under=people.account("ann").name, shown="ann/new")


def test_every_way_in_which_a_token_does_not_count_has_its_name(people: People) -> None:
    good, ports = token(people), people.ports
    for text in ("", "x", "odf_pat_", good.text[:-1], good.text + "0", good.text.replace("pat", "xyz")):
        with pytest.raises(TokenMalformed):
            authenticate(text, ports=ports)
    swapped = good.text[:-1] + ("0" if good.text[-1] != "0" else "1")
    with pytest.raises(TokenChecksumWrong):
        authenticate(swapped, ports=ports)
    for stranger in (
        make(TokenKind.PERSONAL, bytes(16), bytes(32)),
        make(TokenKind.PERSONAL, bytes.fromhex(good.token.id), bytes(32)),
        make(TokenKind.SERVICE, bytes.fromhex(good.token.id), bytes(32)),
    ):
        with pytest.raises(TokenUnknown):
            authenticate(stranger, ports=ports)
    revoke_token(good.token.id, subject=people.subject("ann"), ports=ports)
    with pytest.raises(TokenRevoked):
        authenticate(good.text, ports=ports)
    short = token(people, expires_at=Instant(people.memory.clock.now().epoch_ns + DAY_MS * 1_000_000))
    people.memory.clock.advance(DAY_MS + 1)
    with pytest.raises(TokenExpired):
        authenticate(short.text, ports=ports)
    last = token(people)
    set_suspended("ann", True, subject=people.operator, ports=ports)
    with pytest.raises(AccountSuspended):
        authenticate(last.text, ports=ports)


def test_the_checksum_is_looked_at_before_anything_is_looked_up(people: People) -> None:
    good = token(people)
    broken = good.text[:-1] + ("0" if good.text[-1] != "0" else "1")

    class NoTokens:
        def __getattr__(self, name: str) -> object:
            raise AssertionError("the store was asked")

    with pytest.raises(TokenChecksumWrong):
        authenticate(broken, ports=replace(people.ports, tokens=NoTokens()))  # type: ignore[arg-type]


def test_no_secret_is_stored(people: People) -> None:
    issued = token(people)
    stored = people.ports.tokens.get(issued.token.id)
    assert stored == issued.token
    assert issued.text.rpartition("_")[2] not in repr(stored)


def test_a_token_goes_no_further_than_its_maker(people: People) -> None:
    narrow = authenticate(token(people, MANAGE).text, ports=people.ports)
    token(people, READ, PUSH, MANAGE, of=narrow)
    with pytest.raises(AccessDenied):
        token(people, ADMIN, of=narrow)
    for scope in (READ, PUSH):
        with pytest.raises(AccessDenied):
            token(people, READ, of=authenticate(token(people, scope).text, ports=people.ports))
    with pytest.raises(Unauthenticated):
        token(people, READ, of=people.stranger)


def test_the_scope_admin_is_for_admins(people: People) -> None:
    with pytest.raises(InvalidRequest):
        token(people, ADMIN)
    set_admin("ann", True, subject=people.operator, ports=people.ports)
    as_admin = authenticate(token(people, ADMIN).text, ports=people.ports)
    as_person = authenticate(token(people, MANAGE).text, ports=people.ports)
    entry, access = people.add("bob"), people.memory.node.access
    assert as_admin.is_admin
    with pytest.raises(NotFound):
        access.require(as_person, Action.READ, entry)
    set_admin("ann", False, subject=people.operator, ports=people.ports)
    assert not authenticate(
        create_token(
            NewToken(name="x", scopes=frozenset({READ})), subject=people.subject("ann"), ports=people.ports
        ).text,
        ports=people.ports,
    ).is_admin


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"scopes": frozenset()},
        {"kind": TokenKind.SESSION},
        {"expires_at": Instant.parse("2020-01-01T00:00:00Z")},
        {"datasets": frozenset()},
    ],
)
def test_what_no_token_can_be_is_refused(people: People, wrong: dict[str, object]) -> None:
    before = people.kinds()
    with pytest.raises(InvalidRequest):
        token(people, **wrong)  # type: ignore[arg-type]
    assert people.kinds() == before


def test_only_admins_make_tokens_of_the_reference_s_form(people: People) -> None:
    with pytest.raises(AccessDenied):
        token(people, READ, kind=TokenKind.REFERENCE)
    wanted = NewToken(name="kamu", kind=TokenKind.REFERENCE)
    issued = create_token(wanted, of="ann", subject=people.operator, ports=people.ports)
    assert (len(issued.text), issued.text[:3]) == (61, "ka_")
    assert authenticate(issued.text, ports=people.ports).account == people.account("ann")


def test_a_service_of_an_organisation_acts_as_the_organisation(people: People) -> None:
    wanted = NewToken(name="feed", kind=TokenKind.SERVICE, scopes=frozenset({PUSH}))
    with pytest.raises(AccessDenied):
        create_token(wanted, of="acme", subject=people.subject("bob"), ports=people.ports)
    with pytest.raises(InvalidRequest):
        create_token(
            replace(wanted, kind=TokenKind.PERSONAL), of="acme", subject=people.subject("ann"), ports=people.ports
        )
    issued = create_token(wanted, of="acme", subject=people.subject("ann"), ports=people.ports)
    service = authenticate(issued.text, ports=people.ports)
    people.memory.node.access.require(service, Action.PUSH, people.add("acme"))
    with pytest.raises(NotFound):
        people.memory.node.access.require(service, Action.PUSH, people.add("ann"))


def test_tokens_are_seen_and_ended_by_those_who_manage_the_account(people: People) -> None:
    issued, ports = token(people), people.ports
    found = list_tokens(limit=10, subject=people.subject("ann"), ports=ports)
    assert [each.id for each in found] == [issued.token.id]
    with pytest.raises(AccessDenied):
        list_tokens(of="ann", limit=10, subject=people.subject("bob"), ports=ports)
    for of in ("bob", "ann"):
        subject = people.subject(of)
        if of == "ann":
            assert inspect_token(issued.text, subject=subject, ports=ports)[0] == issued.token
        else:
            with pytest.raises(TokenUnknown):
                inspect_token(issued.text, subject=subject, ports=ports)
            with pytest.raises(NotFound):
                revoke_token(issued.token.id, subject=subject, ports=ports)
    own = authenticate(issued.text, ports=ports)
    revoke_token(issued.token.id, subject=own, ports=ports)  # a token may always end itself
    assert list_tokens(limit=10, subject=people.subject("ann"), ports=ports) == []
    with pytest.raises(NotFound):
        revoke_token(issued.token.id, subject=people.operator, ports=ports)


def test_an_admin_s_token_for_some_datasets_is_no_admin_elsewhere(people: People) -> None:
    """An admin's token for some datasets is no admin elsewhere.

    It neither looks at tokens of others, nor ends them, nor sees who belongs to an organisation, nor jobs on other
    datasets.
    """
    set_admin("bob", True, subject=people.operator, ports=people.ports)
    mine, other, node = people.add("ann", "mine"), people.add("ann", "other"), people.memory.node
    issued = token(people)
    narrow = replace(people.subject("bob"), datasets=frozenset({mine.id}))
    with pytest.raises(TokenUnknown):
        inspect_token(issued.text, subject=narrow, ports=people.ports)
    with pytest.raises(NotFound):
        revoke_token(issued.token.id, subject=narrow, ports=people.ports)
    with pytest.raises(NotFound):
        list_members("acme", subject=narrow, ports=people.ports)
    for entry in (mine, other):
        job = node.requests.verify(entry, VerifyOptions(), by=people.subject("ann"))
        if entry == mine:
            assert node.jobs.get(job.id, by=narrow) == job
        else:
            with pytest.raises(NotFound):
                node.jobs.get(job.id, by=narrow)


def test_the_last_use_is_remembered_to_the_minute(people: People) -> None:
    issued, ports = token(people), people.ports
    authenticate(issued.text, ports=ports)
    first = ports.tokens.get(issued.token.id)
    assert first is not None
    assert first.last_used_at is not None
    people.memory.clock.advance(30_000)
    authenticate(issued.text, ports=ports)
    assert ports.tokens.get(issued.token.id) == first
    people.memory.clock.advance(60_000)
    authenticate(issued.text, ports=ports)
    assert ports.tokens.get(issued.token.id) != first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=120))
def test_no_text_breaks_the_door(people: People, text: str) -> None:
    with pytest.raises(OdfError) as refused:
        authenticate(text, ports=people.ports)
    assert len(text) < 20 or text not in str(refused.value)

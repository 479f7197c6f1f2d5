"""Passwords, invitations, the device flow, identities of providers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from odfabric.domain.people.access import Subject
from odfabric.errors import (
    AccessDenied,
    AccountSuspended,
    AlreadyExists,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    TokenRevoked,
    WrongCredentials,
)
from odfabric.model.people.account import ExternalIdentity
from odfabric.model.people.credential import Scope, TokenKind
from odfabric.usecases.people.accounts import set_admin, set_suspended
from odfabric.usecases.people.devices import (
    DeviceAnswer,
    StartedDevice,
    decide_device,
    look_at_device,
    redeem_device,
    start_device,
)
from odfabric.usecases.people.invitations import (
    IssuedInvitation,
    accept,
    first_admin,
    invite,
    list_invitations,
    look_at,
    reset_password,
    revoke_invitation,
)
from odfabric.usecases.people.sign_in import (
    account_of_identity,
    change_password,
    check_password,
    link_identity,
    open_session,
)
from odfabric.usecases.people.tokens import IssuedToken, authenticate
from tests.usecases.people.conftest import PASSWORD, People

HERE = "192.0.2.7"


def use(people: People, issued: IssuedInvitation, *, name: str | None = None, password: str = PASSWORD) -> None:
    accept(issued.code, name=name, display_name=None, password=password, address=HERE, ports=people.ports)


def invited(people: People, name: str | None = None, *, is_admin: bool = False) -> IssuedInvitation:
    return invite(name=name, email=None, is_admin=is_admin, subject=people.operator, ports=people.ports)


def enter(people: People, name: str, password: str = PASSWORD, *, address: str = HERE) -> None:
    check_password(name, password, address=address, ports=people.ports)


def test_an_invitation_makes_an_account_that_can_sign_in_once(people: People) -> None:
    issued = invited(people)
    use(people, issued, name="carol")
    enter(people, "Carol")
    with pytest.raises(NotFound):
        use(people, issued, name="dave")
    with pytest.raises(NotFound):
        look_at(issued.code, ports=people.ports)
    assert not people.account("carol").is_admin


def test_an_invitation_for_a_name_gives_that_name(people: People) -> None:
    issued = invited(people, "carol", is_admin=True)
    with pytest.raises(InvalidRequest):
        use(people, issued, name="dave")
    use(people, issued)
    assert people.account("carol").is_admin
    with pytest.raises(AlreadyExists):
        invited(people, "CAROL")


def test_a_link_that_failed_can_be_used_again(people: People) -> None:
    issued = invited(people)
    with pytest.raises(InvalidRequest):
        use(people, issued, name="carol", password="short")
    with pytest.raises(AlreadyExists):
        use(people, issued, name="ANN")
    use(people, issued, name="carol")


@pytest.mark.parametrize("ended", ["revoked", "expired", "unknown"])
def test_a_link_that_is_worth_nothing_tells_nothing(people: People, ended: str) -> None:
    issued = invited(people)
    if ended == "revoked":
        revoke_invitation(issued.invitation.id, subject=people.operator, ports=people.ports)
    if ended == "expired":
        people.memory.clock.advance(int(people.memory.settings.invitation_s * 1000) + 1)
    code = issued.code if ended != "unknown" else issued.code[:-1]
    with pytest.raises(NotFound) as refused:
        accept(code, name="carol", display_name=None, password=PASSWORD, address=None, ports=people.ports)
    assert code not in str(refused.value)
    assert list_invitations(subject=people.operator, ports=people.ports) == [] or ended == "unknown"


def test_only_admins_invite_and_reset(people: People) -> None:
    with pytest.raises(AccessDenied):
        invite(name=None, email=None, is_admin=True, subject=people.subject("ann"), ports=people.ports)
    with pytest.raises(AccessDenied):
        reset_password("bob", subject=people.subject("ann"), ports=people.ports)
    for name in ("acme", "system"):
        with pytest.raises(InvalidRequest):
            reset_password(name, subject=people.operator, ports=people.ports)


def test_a_new_password_ends_the_sessions_of_the_old_one(people: People) -> None:
    use(people, reset_password("ann", subject=people.operator, ports=people.ports))
    session = open_session(people.account("ann"), how="password", device="browser", address=HERE, ports=people.ports)
    assert session.token.kind is TokenKind.SESSION
    authenticate(session.text, ports=people.ports)
    with pytest.raises(WrongCredentials):
        change_password("wrong", PASSWORD + " 2", subject=people.subject("ann"), ports=people.ports)
    change_password(PASSWORD, PASSWORD + " 2", subject=people.subject("ann"), ports=people.ports)
    with pytest.raises(TokenRevoked):
        authenticate(session.text, ports=people.ports)
    enter(people, "ann", PASSWORD + " 2")
    with pytest.raises(WrongCredentials):
        enter(people, "ann", PASSWORD)


def test_a_first_password_needs_a_credential_that_goes_as_far(people: People) -> None:
    """A first password needs a credential with all rights of the account.

    Signing in gives all of them: who has no scope admin must not choose the password of an admin.
    """
    set_admin("ann", True, subject=people.operator, ports=people.ports)
    narrow = replace(people.subject("ann"), scopes=frozenset({Scope.MANAGE}))
    with pytest.raises(AccessDenied):
        change_password(None, PASSWORD, subject=narrow, ports=people.ports)
    with pytest.raises(WrongCredentials):
        enter(people, "ann")
    change_password(None, PASSWORD, subject=people.subject("ann"), ports=people.ports)
    change_password(PASSWORD, PASSWORD + " 2", subject=narrow, ports=people.ports)


def test_an_organisation_has_no_password(people: People) -> None:
    with pytest.raises(InvalidRequest):
        change_password(None, PASSWORD, subject=people.subject("acme"), ports=people.ports)


def test_the_old_password_is_guessed_no_more_often_than_at_the_door(people: People) -> None:
    use(people, reset_password("ann", subject=people.operator, ports=people.ports))
    for _ in range(people.ports.limits.sign_ins_per_account_max):
        with pytest.raises(WrongCredentials):
            change_password("wrong", PASSWORD + " 2", subject=people.subject("ann"), ports=people.ports)
    for attempt in (
        lambda: change_password(PASSWORD, PASSWORD + " 2", subject=people.subject("ann"), ports=people.ports),
        lambda: enter(people, "ann"),
    ):
        with pytest.raises(LimitExceeded):
            attempt()
    people.memory.clock.advance(people.ports.limits.sign_in_window_s * 1000)
    change_password(PASSWORD, PASSWORD + " 2", subject=people.subject("ann"), ports=people.ports)


def test_a_wrong_password_and_an_unknown_name_are_one_answer_and_one_work(people: People) -> None:
    use(people, reset_password("ann", subject=people.operator, ports=people.ports))
    hashes: Callable[[], int] = lambda: people.ports.passwords.hashes  # type: ignore[attr-defined]  # noqa: E731
    seen = set()
    for name in ("ann", "bob", "nobody", "acme", "system", "no--name", ""):
        before = hashes()
        with pytest.raises(WrongCredentials) as refused:
            enter(people, name, "wrong password, quite long", address=name)
        seen.add((str(refused.value), hashes() - before))
    assert len(seen) == 1


def test_a_suspended_person_is_told_so_only_with_the_right_password(people: People) -> None:
    use(people, reset_password("ann", subject=people.operator, ports=people.ports))
    set_suspended("ann", True, subject=people.operator, ports=people.ports)
    with pytest.raises(AccountSuspended):
        enter(people, "ann")
    with pytest.raises(WrongCredentials):
        enter(people, "ann", "wrong")


def test_guessing_is_bounded_by_name_and_by_address(people: People) -> None:
    limits = people.ports.limits
    use(people, reset_password("ann", subject=people.operator, ports=people.ports))
    for attempt in range(limits.sign_ins_per_account_max):
        with pytest.raises(WrongCredentials):
            enter(people, "ann", "wrong", address=f"198.51.100.{attempt}")
    with pytest.raises(LimitExceeded) as refused:
        enter(people, "ANN", address="203.0.113.1")
    assert refused.value.retry_after_s is not None
    people.memory.clock.advance(limits.sign_in_window_s * 1000)
    enter(people, "ann")
    for attempt in range(limits.sign_ins_per_address_max):
        with pytest.raises(WrongCredentials):
            enter(people, f"guess{attempt}", "wrong", address="203.0.113.2")
    with pytest.raises(LimitExceeded):
        enter(people, "ann", address="203.0.113.2")
    enter(people, "ann", address="203.0.113.3")


def test_refused_attempts_are_counted_in_the_audit(people: People) -> None:
    for _ in range(3):
        with pytest.raises(WrongCredentials):
            enter(people, "ann", "wrong")
    last = people.ports.audit.page(limit=1000)[-1]
    assert (last.entry.kind.value, last.entry.target, last.count) == ("session.refused", "ann", 3)


def test_the_first_admin_comes_by_a_link_and_then_there_is_none(people: People) -> None:
    older = first_admin(ports=people.ports)
    newer = first_admin(ports=people.ports)
    assert older is not None
    assert newer is not None
    with pytest.raises(NotFound):
        use(people, older, name="root")
    use(people, newer, name="root")
    assert people.account("root").is_admin
    assert first_admin(ports=people.ports) is None


def started(people: People) -> StartedDevice:
    return start_device("odf on a laptop", scopes=None, ports=people.ports)


def ask(people: People, device: StartedDevice) -> IssuedToken | DeviceAnswer:
    people.memory.clock.advance(device.authorisation.interval_s * 1000)
    return redeem_device(device.device_code, address=HERE, ports=people.ports)


def decide(people: People, device: StartedDevice, *, approve: bool, by: Subject) -> None:
    code = device.authorisation.user_code.lower()
    decide_device(f" {code[:4]}-{code[4:]} ", approve=approve, subject=by, ports=people.ports)


def test_a_device_gets_a_token_once_after_its_person_has_said_yes(people: People) -> None:
    device = started(people)
    assert ask(people, device) is DeviceAnswer.PENDING
    assert look_at_device(device.authorisation.user_code, subject=people.subject("ann"), ports=people.ports)
    decide(people, device, approve=True, by=people.subject("ann"))
    issued = ask(people, device)
    assert isinstance(issued, IssuedToken)
    subject = authenticate(issued.text, ports=people.ports)
    assert (subject.account, subject.has_scope(Scope.MANAGE), subject.is_admin) == (people.account("ann"), True, False)
    assert ask(people, device) is DeviceAnswer.INVALID


@pytest.mark.parametrize("scopes", [{Scope.READ}, {Scope.MANAGE}], ids=lambda scopes: "-".join(map(str, scopes)))
def test_nobody_approves_a_device_that_would_go_further_than_they(people: People, scopes: set[Scope]) -> None:
    """A token without the scope admin would get one that has it."""
    set_admin("ann", True, subject=people.operator, ports=people.ports)
    device = started(people)
    narrow = replace(people.subject("ann"), scopes=frozenset(scopes))
    with pytest.raises(AccessDenied):
        decide(people, device, approve=True, by=narrow)
    assert ask(people, device) is DeviceAnswer.PENDING
    if Scope.MANAGE in scopes:
        decide(people, device, approve=False, by=narrow)
        assert ask(people, device) is DeviceAnswer.DENIED


def test_a_device_that_was_denied_or_waited_too_long_gets_none(people: People) -> None:
    denied, late = started(people), started(people)
    decide(people, denied, approve=False, by=people.subject("ann"))
    assert ask(people, denied) is DeviceAnswer.DENIED
    people.memory.clock.advance(int(people.memory.settings.device_s * 1000))
    assert ask(people, late) in (DeviceAnswer.EXPIRED, DeviceAnswer.INVALID)
    with pytest.raises(NotFound):
        decide(people, late, approve=True, by=people.subject("ann"))
    assert redeem_device("nonsense", address=None, ports=people.ports) is DeviceAnswer.INVALID


def test_a_device_that_asks_too_fast_is_slowed_down(people: People) -> None:
    device = started(people)
    assert ask(people, device) is DeviceAnswer.PENDING
    assert redeem_device(device.device_code, address=None, ports=people.ports) is DeviceAnswer.SLOW_DOWN
    decide(people, device, approve=True, by=people.subject("ann"))
    assert ask(people, device) is DeviceAnswer.SLOW_DOWN  # the pause has become longer
    people.memory.clock.advance(60_000)
    assert isinstance(ask(people, device), IssuedToken)


def test_a_decision_is_made_once_and_by_somebody(people: People) -> None:
    device = started(people)
    decide(people, device, approve=True, by=people.subject("ann"))
    with pytest.raises(NotFound):
        decide(people, device, approve=True, by=people.subject("bob"))
    set_suspended("ann", True, subject=people.operator, ports=people.ports)
    assert ask(people, device) is DeviceAnswer.DENIED


IDENTITY = ExternalIdentity(issuer="https://login.example.org", subject="4711")


def identified(people: People, *, wished: str | None = "carol", may_sign_up: bool = False) -> str:
    found = account_of_identity(
        IDENTITY,
        wished_name=wished,
        display_name="Carol",
        email="carol@example.org",
        may_sign_up=may_sign_up,
        address=HERE,
        ports=people.ports,
    )
    return str(found.name)


def test_an_identity_is_linked_or_brings_its_own_account(people: People) -> None:
    with pytest.raises(AccessDenied):
        identified(people)
    assert identified(people, may_sign_up=True) == "carol"
    assert identified(people) == "carol"
    with pytest.raises(AlreadyExists):
        link_identity(IDENTITY, subject=people.subject("ann"), ports=people.ports)


@pytest.mark.parametrize(
    ("wished", "name"),
    [
        ("ann", "ann-2"),
        ("Ann", "Ann-2"),
        ("system", "system-2"),
        ("Jo Doe", "Jo-Doe"),
        ("日本", "user"),
        (None, "carol"),
    ],
)
def test_a_new_account_gets_a_free_name_near_the_wish(people: People, wished: str | None, name: str) -> None:
    assert identified(people, wished=wished, may_sign_up=True) == name


def test_a_linked_identity_signs_in_as_its_account(people: People) -> None:
    link_identity(IDENTITY, subject=people.subject("ann"), ports=people.ports)
    assert identified(people, may_sign_up=True) == "ann"
    set_suspended("ann", True, subject=people.operator, ports=people.ports)
    with pytest.raises(AccountSuspended):
        identified(people)

"""Shares of senders: what hangs leaves room for others."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.subscriptions.delivery_shares import UnderWay, avoided, sure
from odfabric.model.identity import DatasetId
from odfabric.model.subscriptions.subscription import Avoided

SENDERS = 32
DATASETS = [DatasetId(bytes([number]) * 32) for number in range(40)]
GOOD = UnderWay(receiver="good:443", account="good", dataset=DATASETS[39], slow=False, proven=True)

hanging = st.builds(
    UnderWay,
    receiver=st.sampled_from([f"evil-{number}:443" for number in range(100)]),
    account=st.sampled_from([f"account-{number}" for number in range(40)]),
    dataset=st.sampled_from(DATASETS[:39]),
    slow=st.booleans(),
    proven=st.booleans(),
)


def gets_one(asking: UnderWay, full: Avoided | None) -> bool:
    """As the port says it."""
    if full is None:
        return False
    return not (
        asking.receiver in full.receivers
        or asking.account in full.accounts
        or (asking.doubtful and asking.account in full.doubtful_accounts)
        or (asking.doubtful and asking.dataset in full.doubtful_datasets)
        or (asking.doubtful and full.doubtful)
        or (asking.slow and full.slow)
    )


def handed_out(queue: list[UnderWay], *, senders: int = SENDERS) -> list[UnderWay]:
    """Who holds a sender if nobody gives one back."""
    sending: list[UnderWay] = []
    for asking in queue:
        if gets_one(asking, avoided(sending, senders=senders)):
            sending.append(asking)
    return sending


@given(st.lists(hanging.map(lambda each: replace(each, proven=False)), max_size=300))
def test_a_proven_receiver_finds_a_sender_however_many_doubtful_ones_hang(queue: list[UnderWay]) -> None:
    assert gets_one(GOOD, avoided(handed_out(queue), senders=SENDERS))


@given(st.lists(hanging, max_size=300), st.booleans())
def test_an_account_finds_a_sender_however_much_another_one_hangs(queue: list[UnderWay], proven: bool) -> None:
    evil = [replace(each, account="evil") for each in queue]
    assert gets_one(replace(GOOD, proven=proven), avoided(handed_out(evil), senders=SENDERS))


@given(st.lists(hanging.map(lambda each: replace(each, proven=False)), max_size=300))
def test_a_dataset_finds_a_sender_for_a_new_receiver_if_another_one_hangs(queue: list[UnderWay]) -> None:
    evil = [replace(each, account="good", dataset=DATASETS[0]) for each in queue]
    assert gets_one(replace(GOOD, proven=False), avoided(handed_out(evil), senders=SENDERS))


@given(st.lists(hanging, max_size=300))
def test_the_slow_hold_a_small_share(queue: list[UnderWay]) -> None:
    held = [each for each in handed_out(queue) if each.slow]
    assert len(held) <= SENDERS // 8


@given(st.lists(hanging, max_size=300))
def test_one_receiver_holds_a_small_share(queue: list[UnderWay]) -> None:
    one = [replace(each, receiver="evil:443") for each in queue]
    assert len(handed_out(one)) <= SENDERS // 8


def test_all_senders_are_of_use_to_receivers_that_answer() -> None:
    queue = [replace(GOOD, receiver=f"good-{number}:443", account=f"{number % 4}") for number in range(100)]
    assert len(handed_out(queue)) == SENDERS


def test_a_single_sender_serves_everybody_in_turn() -> None:
    assert len(handed_out([replace(GOOD, slow=True, proven=False)], senders=1)) == 1
    assert avoided([GOOD], senders=1) is None


@given(st.lists(hanging, max_size=100), st.lists(st.builds(replace, hanging, slow=st.just(False)), max_size=40))
def test_a_portion_gives_no_share_more_than_one_by_one(held: list[UnderWay], queue: list[UnderWay]) -> None:
    sending = handed_out(held)
    portion = sure(sending, senders=SENDERS)
    assert (portion is None) == (avoided(sending, senders=SENDERS) is None)
    full, size = portion or (None, 0)
    assert portion is None or size > 0
    for asking in [each for each in queue if gets_one(each, full)][:size]:
        assert not asking.doubtful
        assert gets_one(asking, avoided(sending, senders=SENDERS))
        sending.append(asking)


def test_a_portion_is_as_large_as_the_share_of_a_receiver() -> None:
    assert sure([], senders=SENDERS) == (Avoided(doubtful=True), SENDERS // 8)
    full, size = sure([GOOD], senders=SENDERS) or (None, 0)
    assert (full, size) == (Avoided(doubtful=True), SENDERS // 8 - 1)

"""Questions that people keep. They go with their account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.identity import AccountId
from odfabric.model.people.saved_query import SavedQuery

NAME_TAKEN_HINT = "choose another name, or open that query and save it again"


class SavedQueries(Protocol):
    """Queries of accounts, names unique in each.

    Raises Determinate or Indeterminate for outside failures.
    """

    def create(self, query: SavedQuery, *, maximum: int) -> None:
        """Keep a new query of an account that has fewer than `maximum`.

        Raises AlreadyExists for a name that the account uses, LimitExceeded, NotFound for no account.
        """

    def get(self, account: AccountId, query_id: str) -> SavedQuery | None:
        """A query of an account, or None."""

    def of_account(self, account: AccountId) -> Sequence[SavedQuery]:
        """All of an account, in order of ids."""

    def change(self, query: SavedQuery) -> None:
        """Replace name, SQL and `changed_at`.

        Raises NotFound, AlreadyExists for a name that another one has.
        """

    def delete(self, account: AccountId, query_id: str) -> bool:
        """Whether there was one."""


def taken(name: str) -> str:
    """The message of a refused name."""
    return f"you have a saved query named {name} already"

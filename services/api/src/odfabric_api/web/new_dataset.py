"""What the screens that make a dataset share.

Under which accounts, for whom, and how the form comes back when it is refused.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.domain.people.access import Action, Verdict
from odfabric.errors import InvalidRequest, Place
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.people.account import Visibility
from odfabric_api.auth import Subject, node_of

ESCAPED_BYTES = 3
"""Bytes of a form for one of a text, at most."""
OWNER_FIELDS = frozenset({"owner", "visibility"})


def owners(request: Request, caller: Subject) -> list[Name]:
    """Accounts under which the visitor may make datasets, their own first."""
    policy = node_of(request).access.policy
    own = [caller.account.name] if caller.account is not None else []
    names = [*own, *(organisation.name for organisation, _ in caller.organisations)]
    return [name for name in names if policy.decide_here(caller, Action.CREATE, under=name) is Verdict.ALLOWED]


def owner_values(request: Request, caller: Subject, form: dict[str, str]) -> dict[str, Any]:
    """Values of the fields `owner` and `visibility` for templates."""
    return {
        "owners": [str(name) for name in owners(request, caller)],
        "owner": form.get("owner", ""),
        "visibility": form.get("visibility", Visibility.PRIVATE.value),
    }


def visibility_of(form: dict[str, str]) -> Visibility:
    """What the form says. Raises InvalidRequest."""
    try:
        return Visibility(form.get("visibility", Visibility.PRIVATE.value))
    except ValueError:
        raise InvalidRequest("a dataset is public or private", place=Place(field="visibility")) from None


def under_owner(alias: DatasetAlias, form: dict[str, str]) -> DatasetAlias:
    """A name under the chosen owner, if it names none itself. Raises InvalidName."""
    if alias.account is not None or not form.get("owner"):
        return alias
    return DatasetAlias(parse_name(form["owner"], type_name="AccountName"), alias.name)


def alias_of(form: dict[str, str]) -> DatasetAlias:
    """The name that the field `name` gives, under the chosen owner.

    Raises InvalidName.
    """
    return under_owner(DatasetAlias(None, parse_name(form.get("name", "").strip())), form)

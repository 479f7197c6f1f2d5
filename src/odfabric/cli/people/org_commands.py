"""Verbs below `odf org`: organisations and their members."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from odfabric.cli.context import backend_of, context_of
from odfabric.model.people.account import OrganisationRole

app = typer.Typer(help="Organisations: accounts that own datasets together.", no_args_is_help=True)

ORGANISATION = typer.Argument(help="Name of an organisation")
USER = typer.Argument(help="Name of a user")


@app.command("create")
def create(
    context: typer.Context,
    name: str = typer.Argument(help="Name of the organisation"),
    display_name: str | None = typer.Option(None, help="How people are shown it", show_default=False),
    email: str | None = typer.Option(None, help="Where to reach it", show_default=False),
) -> None:
    """Make an organisation, of which you are the first admin."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.people.create_organisation(name, display_name=display_name, email=email)
    output.result(made, f"made the organisation {made['name']}; `odf org add {made['name']} USER` adds members")


@app.command("members")
def members(context: typer.Context, organisation: str = ORGANISATION) -> None:
    """Who belongs to an organisation."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.people.members(organisation)
    output.rows(found if output.as_json else [role_row(each) for each in found])


@app.command("add")
def add(
    context: typer.Context,
    organisation: str = ORGANISATION,
    user: str = USER,
    role: OrganisationRole = typer.Option(
        OrganisationRole.MEMBER, help="member edits the organisation's datasets, admin owns them and manages members"
    ),
) -> None:
    """Make a user a member, or give a member another role."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.people.set_member(organisation, user, role.value)
    output.result(made, f"{name_in(made)} is {made['role']} of {organisation}")


@app.command("remove")
def remove(context: typer.Context, organisation: str = ORGANISATION, user: str = USER) -> None:
    """Take a member out, or leave by yourself."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        backend.people.remove_member(organisation, user)
    output.result({"organisation": organisation, "user": user}, f"{user} is no member of {organisation} any more")


def role_row(relation: Mapping[str, object]) -> dict[str, object]:
    """A member or a collaborator as a row for people."""
    account = relation["account"]
    assert isinstance(account, dict)
    return {
        "name": account["name"],
        "kind": account["kind"],
        "role": relation["role"],
        "shownAs": account["displayName"],
    }


def name_in(relation: Mapping[str, object]) -> str:
    """The name of a member or a collaborator."""
    return str(role_row(relation)["name"])

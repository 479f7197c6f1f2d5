"""The verb `odf share`: who may do what with a dataset."""

from __future__ import annotations

import typer

from odfabric.cli.backends.people_backend import PeopleBackend
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import Output
from odfabric.cli.people.org_commands import name_in, role_row
from odfabric.model.people.account import DatasetRole, Visibility


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("share")(share)


def share(
    context: typer.Context,
    dataset: str = typer.Argument(help="Name, account/name or did:odf:... of a dataset"),
    user: str = typer.Argument(
        "", help="Name of a user or an organisation; without it the roles are listed", show_default=False
    ),
    role: DatasetRole | None = typer.Argument(
        None,
        help="reader reads and subscribes, contributor pushes rows too, editor changes sources and transforms, maintainer shares, "
        "owner deletes",
        show_default=False,
    ),
    remove: str = typer.Option(
        "", "--remove", metavar="USER", help="Take this account's role away", show_default=False
    ),
    public: bool | None = typer.Option(
        None, "--public/--private", help="Let everybody read the dataset, or not any more", show_default=False
    ),
) -> None:
    """Give an account a role on a dataset, take it away, let everybody read it.

    Or list who may do what.
    """
    _check_usage(user, role, remove, public)
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        people = backend.people
        if user and role is not None:
            made = people.set_role(dataset, user, role.value)
            output.result(made, f"{name_in(made)} is {made['role']} of {dataset}")
        elif remove:
            people.remove_role(dataset, remove)
            output.result({"dataset": dataset, "user": remove}, f"{remove} has no role on {dataset} any more")
        elif public is not None:
            wanted = Visibility.PUBLIC if public else Visibility.PRIVATE
            changed = people.set_visibility(dataset, wanted.value)
            output.result(changed, f"{dataset} is {changed['visibility']}")
        else:
            _list(people, dataset, output)


def _check_usage(user: str, role: DatasetRole | None, remove: str, public: bool | None) -> None:
    """Raises BadParameter for what says nothing, or two things."""
    if user and role is None:
        roles = ", ".join(each.value for each in DatasetRole)
        raise typer.BadParameter(f"{user} needs a role: {roles}", param_hint="ROLE")
    if sum((bool(user), bool(remove), public is not None)) > 1:
        raise typer.BadParameter("choose one of them", param_hint="USER ROLE / --remove / --public / --private")


def _list(people: PeopleBackend, dataset: str, output: Output) -> None:
    found = people.collaborators(dataset)
    if output.as_json:
        output.document(found)
        return
    rows = found["collaborators"]
    assert isinstance(rows, list)
    output.result(None, f"{dataset} is {found['visibility']}")
    if rows:
        output.rows([role_row(each) for each in rows])
    else:
        output.say("nobody but its owner has a role on it")

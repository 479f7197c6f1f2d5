"""Verbs below `odf variables`: what the templates of a dataset's source name."""

from __future__ import annotations

import sys

import typer

from odfabric.cli.context import backend_of, context_of

app = typer.Typer(
    help="Variables and secrets of datasets, for `${{ env.NAME }}` in their sources.", no_args_is_help=True
)

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
NAME = typer.Argument(help="Letters, digits and _, such as API_TOKEN")


@app.command("list")
def list_variables(context: typer.Context, ref: str = REF) -> None:
    """Show the variables of a dataset; the values of secrets are never shown."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.variables.listed(ref)
    if output.as_json:
        output.document(found)
        return
    output.rows(
        [
            {
                "name": each["name"],
                "value": "(secret)" if each["secret"] else each["value"],
                "changed": each["changedAt"],
            }
            for each in found
        ]
    )


@app.command("set")
def set_variable(
    context: typer.Context,
    ref: str = REF,
    name: str = NAME,
    value: str = typer.Argument("", help="The value of a variable that is no secret"),
    secret: bool = typer.Option(
        False, "--secret", help="Seal the value, never show it; asked for, or one line of standard input"
    ),
) -> None:
    """Set a variable.

    The value of a secret is asked for, or is one line of standard input; it is never an argument.
    """
    from odfabric.cli.people.secret_input import asked_secret
    from odfabric.errors import InvalidRequest, Place

    if secret and value:
        raise InvalidRequest(
            "the value of a secret is no argument: other people of the machine could read it",
            place=Place(field="value"),
            hint="leave it out: it is asked for, or is one line of standard input",
        )
    if not secret and not value and not sys.stdin.isatty():
        value = sys.stdin.readline().rstrip("\r\n")
    text = asked_secret(f"Value of {name}") if secret else value
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.variables.set(ref, name, text, secret=secret)
    output.result(made, f"{ref}: {'secret' if secret else 'variable'} {name} is set")


@app.command("remove")
def remove_variable(context: typer.Context, ref: str = REF, name: str = NAME) -> None:
    """Remove a variable or a secret."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        backend.variables.remove(ref, name)
    output.result({"name": name}, f"{ref}: {name} is removed")

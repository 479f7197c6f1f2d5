"""Verbs below `odf repo`, and `odf push` and `odf search`: datasets elsewhere."""

from __future__ import annotations

import typer

from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import counted
from odfabric.cli.transfer_progress import sized
from odfabric.errors import OdfError

app = typer.Typer(help="Repositories elsewhere: names for nodes, folders and buckets.", no_args_is_help=True)

NAME = typer.Argument(help="Name of the repository")
REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
SHARED = typer.Option(False, "--shared", help="One of the node, for all its accounts; admins change those")


def register(root: typer.Typer) -> None:
    """Add the verbs to the command."""
    root.add_typer(app, name="repo")
    root.command("push")(push)
    root.command("search")(search)


@app.command("add")
def add(
    context: typer.Context,
    name: str = NAME,
    url: str = typer.Argument(
        help="odf+https://host/, https://host/, s3://bucket/folder, s3+https://host/bucket/folder, file:///folder or ./folder"
    ),
    shared: bool = SHARED,
) -> None:
    """Make a repository known: NAME/[account/]dataset then names datasets there.

    No network is asked.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.sharing.add(name, url, shared=shared)
    output.result(made, f"{made['name']} is {made['url']}")


@app.command("list")
def list_repositories(context: typer.Context) -> None:
    """Show the repositories that are known."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.sharing.listed()
    shown = [{"name": each["name"], "url": each["url"], "of": "node" if each["shared"] else "you"} for each in found]
    output.rows(found if output.as_json else shown)


@app.command("remove")
def remove(context: typer.Context, name: str = NAME, shared: bool = SHARED) -> None:
    """Forget a repository. What was pulled from it or pushed to it stays."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        backend.sharing.remove(name, shared=shared)
    output.result({"name": name}, f"{name} is forgotten")


@app.command("aliases")
def aliases(
    context: typer.Context,
    ref: str = REF,
    forget: str = typer.Option("", "--forget", help="A push alias to forget; what is there stays"),
) -> None:
    """Show where a dataset is pulled from and where it was pushed to."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        if forget:
            backend.sharing.forget_alias(ref, forget)
        found = backend.sharing.aliases(ref)
    output.rows(found)


def push(
    context: typer.Context,
    refs: list[str] = typer.Argument(help="Names, account/names or did:odf:... of datasets"),
    to: str = typer.Option(
        "", "--to", help="A URL, a repository, or repository/[account/]dataset; default: where it was pushed to before"
    ),
    force: bool = typer.Option(
        False, "--force", help="Replace what is there if it is ahead or aside; takes the right to rewrite the history"
    ),
    public: bool = typer.Option(False, "--public", help="Everybody may read a dataset that is new on a node"),
) -> None:
    """Push datasets to another node, a folder or a bucket.

    What is there already is not sent again.

    Without --to a dataset goes where it was pushed to before, else to the only repository.
    """
    output = context_of(context).output
    results, failed = [], None
    with backend_of(context_of(context), output, pulls=True) as backend:
        for ref in refs:
            try:
                sent = backend.sharing.push(ref, to=to or None, force=force, public=public)
            except (OdfError, JobFailed) as error:
                if len(refs) > 1:
                    output.say(f"{ref} was not pushed")
                failed = failed or error
                continue
            results.append(sent)
            if not output.as_json:
                output.result(None, f"{sent['alias']}: {_said_of(sent)}")
    if output.as_json and results:
        output.document(results[0] if len(refs) == 1 else results)
    if failed is not None:
        raise failed


def _said_of(sent: dict[str, object]) -> str:
    if sent["upToDate"]:
        return f"{sent['to']} is up to date"
    blocks, objects, size = sent["blocks"], sent["objects"], sent["bytes"]
    assert isinstance(blocks, int)
    assert isinstance(objects, int)
    assert isinstance(size, int)
    replaced = f", replacing {sent['replacedBlocks']}" if sent["replacedBlocks"] else ""
    moved = f"{counted(blocks, 'block')}{replaced}, {counted(objects, 'object')}, {sized(size)}"
    return f"pushed to {sent['to']}: {moved}"


def search(
    context: typer.Context,
    repository: str = NAME,
    words: str = typer.Argument("", help="Part of the name; of nodes also what they find otherwise"),
) -> None:
    """Show datasets of a repository, as `odf pull` takes them."""
    output = context_of(context).output
    with backend_of(context_of(context), output, pulls=True) as backend:
        found = backend.sharing.search(repository, words)
    # Folders and buckets are listed by names alone.
    known = [name for name in ("alias", "id", "kind") if any(each[name] for each in found)]
    output.rows(found if output.as_json else [{name: each[name] for name in known} for each in found])

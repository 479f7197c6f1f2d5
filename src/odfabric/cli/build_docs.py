"""The verb `docs`: builds the documentation site, warnings are errors.

Owns where it is built and with which options of Sphinx. It installs nothing: the launcher has done that.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import typer

from odfabric.errors import InvalidRequest, Place

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ".odf/docs"
"""Where the site is built unless another folder is named: outside of what Git tracks."""


def docs(
    out: str = typer.Option("", help=f"Folder of the pages; default: {FOLDER} of the checkout"),
) -> None:
    """Build the documentation site."""
    folder = Path(out).absolute() if out else ROOT / FOLDER
    if folder == ROOT or (ROOT / "docs") in (folder, *folder.parents):
        raise InvalidRequest(
            f"{folder} has the sources of the pages", place=Place(field="--out"), hint="name another folder"
        )
    code = build_site(ROOT / "docs", folder)
    if code:
        raise typer.Exit(code)
    typer.echo(f"{folder / 'index.html'}")


def build_site(sources: Path, folder: Path) -> int:
    """Build the pages of `sources` into `folder`; the exit code of Sphinx.

    Nothing is kept from an earlier build but foreign files.
    """
    configuration = ROOT / "docs/site"
    if not configuration.is_dir() or importlib.util.find_spec("sphinx") is None:
        raise InvalidRequest(
            "the documentation is built in a checkout, with its own tools", hint="run `./odf docs` in a checkout"
        )
    with tempfile.TemporaryDirectory(prefix="odf-docs-") as doctrees:
        strict = ("--fail-on-warning", "--keep-going", "--nitpicky", "--fresh-env", "--quiet")
        command = [sys.executable, "-P", "-m", "sphinx", *strict, "--builder", "html", "--doctree-dir", doctrees]
        return subprocess.run([*command, "--conf-dir", str(configuration), str(sources), str(folder)]).returncode

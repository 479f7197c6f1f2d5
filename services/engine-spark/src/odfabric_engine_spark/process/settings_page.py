"""docs/engine-settings.md from the engine's settings.

`python -m odfabric_engine_spark.process.settings_page > docs/engine-settings.md`.

Owns what is said of each setting, here and by `--help`: the text below its line in `EngineSettings`. Not here: the settings
(`settings`), those of the coordinator (`odfabric.settings`).
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import fields
from itertools import pairwise

from odfabric.formats.operations.settings_table import settings_table
from odfabric_engine_spark.spark.settings import EngineSettings

HEAD = """\
# Settings of the engine

Made from `services/engine-spark/src/odfabric_engine_spark/spark/settings.py` by
`PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python -m odfabric_engine_spark.process.settings_page > docs/engine-settings.md`.

Each is an option of `python -m odfabric_engine_spark`, such as `--bound-bytes-max 1073741824`. The engine that a workspace starts on demand gets
them from `ODF_ENGINE_OPTIONS`, a JSON object: `ODF_ENGINE_OPTIONS='{"bound_bytes_max": 1073741824}'`; it has its memory, flags of the JVM, idle
time and longest call from the settings of the node ([settings.md](settings.md)), which go before. A running engine keeps what it was started with.
What a limit refuses names the limit in its error.

"""

_OF_THE_MACHINE = {"cores": "processors"}
"""Defaults that are not the same everywhere."""


def settings_page() -> str:
    """The page."""
    told = descriptions()
    rows = [
        (one.name, _OF_THE_MACHINE.get(one.name, one.default), told[one.name])
        for one in fields(EngineSettings)
        if one.name in told and one.repr  # a secret comes from a file
    ]
    return HEAD + settings_table(rows)


def descriptions() -> dict[str, str]:
    """What each setting is, by name.

    Those that are no limits are described in the text of the class.
    """
    (tree,) = ast.parse(inspect.getsource(EngineSettings)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for stated, text in pairwise(tree.body):
        match stated, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as words)):
                found[name] = " ".join(words.split())
            case _:
                continue
    return found


if __name__ == "__main__":
    sys.stdout.write(settings_page())

"""The command line as a page, from the commands themselves: what `--help` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from odfabric.cli.app import app
from site_pages.markup import code, paragraphs, plain, section, table


def commands_text() -> str:
    """Options of every verb, then the verbs in the order of their names."""
    root = typer.main.get_command(app)
    verbs = sorted(_verbs(root, ()), key=lambda verb: verb[0])
    rows = [(f"[{code(' '.join(path))}](#{_target(path)})", plain(_summary(verb))) for path, verb in verbs]
    return (
        section(2, "Options of every verb", "command-options", _parameters(root))
        + section(2, "Verbs", "command-verbs", table(("verb", "what"), rows))
        + "".join(_verb(path, verb) for path, verb in verbs)
    )


def _verbs(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in getattr(command, "commands", {}).items():
        if found.hidden:
            continue
        if getattr(found, "commands", None):
            yield from _verbs(found, (*path, name))
        else:
            yield (*path, name), found


def _verb(path: tuple[str, ...], verb: Any) -> str:
    arguments = " ".join(_usage(one) for one in verb.params if one.param_type_name == "argument")
    line = " ".join(part for part in ("./odf", *path, "[OPTIONS]" if _options(verb) else "", arguments) if part)
    title = " ".join(path)
    return section(3, title, _target(path), f"```text\n{line}\n```", paragraphs(verb.help or ""), _parameters(verb))


def _options(verb: Any) -> list[Any]:
    return [one for one in verb.params if one.param_type_name == "option" and not one.hidden and one.name != "help"]


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs == -1 else "")


def _parameters(verb: Any) -> str:
    rows = []
    for one in verb.params:
        if one.param_type_name == "argument" and getattr(one, "help", None):
            rows.append((code(_usage(one)), plain(one.help), ""))
    for one in _options(verb):
        names = ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))
        rows.append((names, plain(one.help or ""), _default(one)))
    return table(("option", "meaning", "default"), rows)


def _default(option: Any) -> str:
    if option.is_flag or option.default in (None, "", (), []) or callable(option.default):
        return ""
    return code(str(option.default))


def _summary(verb: Any) -> str:
    return str(verb.help or "").strip().partition("\n\n")[0]


def _target(path: tuple[str, ...]) -> str:
    return "command-" + "-".join(path)

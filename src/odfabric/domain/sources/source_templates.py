"""Templates in the text of a source: `${{ env.NAME || 'default' || 12.5 }}`.

Owns their grammar and which alternative is taken: the first variable that has a value, or the first literal. Invariant: a text is expanded
once, so a value that looks like a template stays as it is; the value of a secret is kept apart in `Expanded.secrets`, so that anyone who
uses the text can hide it. Not here: where values come from (`usecases.datasets.dataset_variables`). Source:
specification, "Data Ingestion".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from odfabric.errors import InvalidManifest, NotFound, OdfError, Place
from odfabric.model.metadata import SetPollingSource
from odfabric.model.source import FetchStepContainer, FetchStepEthereumLogs, FetchStepMqtt, FetchStepUrl

TEMPLATE_START = "${{"
HIDDEN = "***"
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
VARIABLE_NAME_CHARACTERS_MAX = 100
SECRET_CHARACTERS_MIN = 4
"""A shorter secret could not be hidden: its characters occur in any text."""

_URL_SAFE = "!$%&'()*+,/:;=?@[]~"
"""What requests leave as it is in a URL; see `adapters.http.url`."""
_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_ALTERNATIVE = re.compile(
    r"\s*(?:env\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|'(?P<text>[^']*)'|(?P<number>-?[0-9]+(?:\.[0-9]+)?))\s*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable stands for."""

    text: str
    secret: bool = False


Lookup: TypeAlias = Callable[[str], Value | None]
"""From the name of a variable to its value, None if it has none."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text without templates, and the values of secrets that went into it."""

    text: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str


_Alternatives: TypeAlias = tuple[_Variable | str, ...]


def expand_template(text: str, lookup: Lookup, *, field: str) -> Expanded:
    """The text with each template replaced. `field` is the place of the text.

    Raises InvalidManifest for a template of another form, NotFound naming the variables if no alternative has a value.
    """
    done: list[str] = []
    secrets: list[str] = []
    for part in _parts(text, field):
        if isinstance(part, str):
            done.append(part)
            continue
        value = _first(part, lookup, field)
        done.append(value.text)
        if value.secret:
            secrets.append(value.text)
    return Expanded("".join(done), tuple(dict.fromkeys(secrets)))


def template_variables(text: str, *, field: str) -> tuple[str, ...]:
    """Names of the variables in a text, in order.

    Raises InvalidManifest for a template of another form.
    """
    alternatives = [part for part in _parts(text, field) if not isinstance(part, str)]
    names = [each.name for part in alternatives for each in part if isinstance(each, _Variable)]
    return tuple(dict.fromkeys(names))


def templated_texts(source: SetPollingSource) -> Iterator[tuple[str, str]]:
    """The texts of a source in which templates count, each behind its field."""
    match source.fetch:
        case FetchStepUrl() as step:
            yield "fetch.url", step.url
            for number, header in enumerate(step.headers or ()):
                yield f"fetch.headers[{number}].value", header.value
        case FetchStepContainer() as step:
            yield "fetch.image", step.image
            for number, argument in enumerate(step.args or ()):
                yield f"fetch.args[{number}]", argument
            for number, variable in enumerate(step.env or ()):
                if variable.value is not None:
                    yield f"fetch.env[{number}].value", variable.value
        case FetchStepMqtt(password=str(password)):
            yield "fetch.password", password
        case FetchStepEthereumLogs(node_url=str(node_url)):
            yield "fetch.nodeUrl", node_url
        case _:
            pass


def hide_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """The text without these values, nor as URLs have them.

    The longest first so that none shows in parts.
    """
    shown_as = set(secrets) | {quote(secret, safe=safe) for secret in secrets for safe in ("", "/", _URL_SAFE)}
    for form in sorted(shown_as - {""}, key=len, reverse=True):
        text = text.replace(form, HIDDEN)
    return text


def without_secrets(error: OdfError, secrets: tuple[str, ...]) -> OdfError:
    """The same error, changed in place: message, hint, arguments without secrets."""
    error.message = hide_secrets(error.message, secrets)
    error.hint = None if error.hint is None else hide_secrets(error.hint, secrets)
    error.args = (error.message,)
    if isinstance(error, NotFound):
        error.name = hide_secrets(error.name, secrets)
    return error


def _parts(text: str, field: str) -> Iterator[str | _Alternatives]:
    position = 0
    for found in _TEMPLATE.finditer(text):
        yield _literal(text[position : found.start()], field)
        yield _alternatives(found, field)
        position = found.end()
    yield _literal(text[position:], field)


def _literal(text: str, field: str) -> str:
    if TEMPLATE_START in text:
        raise _malformed(text, field)
    return text


def _alternatives(found: re.Match[str], field: str) -> _Alternatives:
    """Alternatives, read from left to right: `||` inside quotes belongs to the text."""
    inner, position = found[1], 0
    read: list[_Variable | str] = []
    while True:
        match = _ALTERNATIVE.match(inner, position)
        if match is None:
            raise _malformed(found[0], field)
        read.append(_Variable(match["name"]) if match["name"] else match["text"] or match["number"] or "")
        if match.end() == len(inner):
            return tuple(read)
        if not inner.startswith("||", match.end()):
            raise _malformed(found[0], field)
        position = match.end() + 2


def _first(alternatives: _Alternatives, lookup: Lookup, field: str) -> Value:
    for each in alternatives:
        value = Value(each) if isinstance(each, str) else lookup(each.name)
        if value is not None:
            return value
    names = ", ".join(each.name for each in alternatives if isinstance(each, _Variable))
    error = NotFound("variable", names, hint="set it: odf variables set DATASET NAME, or write a default: || 'text'")
    error.place = Place(field=field)
    raise error


def _malformed(text: str, field: str) -> InvalidManifest:
    return InvalidManifest(
        f"{text[:100]!r} is not a template",
        place=Place(field=field),
        hint="write ${{ env.NAME || 'default' || 12.5 }}: variables, texts in single quotes, numbers",
    )

"""Reading names, aliases, references and patterns of datasets.

Owns the grammar of the specification, section "Identity", and the order in which the readings of a reference are tried.
Invariant: the whole text must match. A text that begins with `did:odf:` (after an optional `repository/`) is an
identity or an error, never something else. Not here: deciding what an ambiguous alias means, which needs the known repositories.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from odfabric.errors import InvalidName
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multibase import invalid_value
from odfabric.model.identity import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetId,
    DatasetIdRemote,
    DatasetPattern,
    DatasetPatternRemote,
    DatasetPushTarget,
    DatasetRef,
    DatasetRefAny,
    DatasetRefRemote,
    DatasetUrl,
    Name,
    NamePattern,
)

NAME_CHARACTERS_MAX = 100
URL_CHARACTERS_MAX = 2_000

_Parsed = TypeVar("_Parsed")

_SUBDOMAIN = r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_HOSTNAME = rf"{_SUBDOMAIN}(?:\.{_SUBDOMAIN})*"
_NAME = re.compile(_HOSTNAME, re.ASCII)
_NAME_PATTERN = re.compile(rf"(?:{_HOSTNAME}[.-]?)?%+(?:[.-]?{_HOSTNAME}[.-]?%+)*(?:[.-]?{_HOSTNAME})?", re.ASCII)
# Printable ASCII without the backslash, which browsers read as a slash and others do not.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:\+[A-Za-z0-9]+)*://[!-\[\]-~]*", re.ASCII)
_DID = "did:odf:"
# The WHATWG "special" schemes: their hosts are domains, their empty path is "/", their default port is not written.
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def parse_name(text: str, *, type_name: str = "DatasetName") -> Name:
    """A dataset, account or repository name of at most 100 characters.

    Raises InvalidName, naming `type_name`.
    """
    if len(text) > NAME_CHARACTERS_MAX:
        raise invalid_value(text, type_name, hint=f"a name has at most {NAME_CHARACTERS_MAX} characters")
    if _NAME.fullmatch(text) is None:
        raise invalid_value(text, type_name, hint="letters and digits, single '.' or '-' between them")
    return Name(text)


def parse_dataset_alias(text: str) -> DatasetAlias:
    """`[account/]dataset`. Raises InvalidName."""
    match _names(text, "DatasetAlias"):
        case [name]:
            return DatasetAlias(None, name)
        case [account, name]:
            return DatasetAlias(account, name)
        case _:
            raise invalid_value(text, "DatasetAlias", hint="expected [account/]dataset")


def parse_dataset_alias_remote(text: str) -> DatasetAliasRemote:
    """`repository/[account/]dataset`. Raises InvalidName."""
    match _names(text, "DatasetAliasRemote"):
        case [repo, name]:
            return DatasetAliasRemote(repo, None, name)
        case [repo, account, name]:
            return DatasetAliasRemote(repo, account, name)
        case _:
            raise invalid_value(text, "DatasetAliasRemote", hint="expected repository/[account/]dataset")


def parse_dataset_ref(text: str) -> DatasetRef:
    """An identity or an alias of a dataset of this node. Raises InvalidName."""
    if text.startswith(_DID):
        return _identity(text, whole=text, type_name="DatasetRef")
    return _renamed(parse_dataset_alias, text, "DatasetRef")


def parse_dataset_ref_remote(text: str) -> DatasetRefRemote:
    """An identity, `repository/identity`, a remote alias or a URL. Raises InvalidName."""
    found = _identity_or_url(text, "DatasetRefRemote")
    return found if found is not None else _renamed(parse_dataset_alias_remote, text, "DatasetRefRemote")


def parse_dataset_ref_any(text: str) -> DatasetRefAny:
    """A reference that may be local or remote.

    `x/dataset` comes back as AmbiguousAlias. Raises InvalidName.
    """
    found = _identity_or_url(text, "DatasetRefAny")
    if found is not None:
        return found
    match _names(text, "DatasetRefAny"):
        case [name]:
            return DatasetAlias(None, name)
        case [first, name]:
            return AmbiguousAlias(first, name)
        case [repo, account, name]:
            return DatasetAliasRemote(repo, account, name)
        case _:
            raise invalid_value(
                text, "DatasetRefAny", hint="expected [[repository/]account/]dataset, did:odf:... or a URL"
            )


def parse_dataset_push_target(text: str) -> DatasetPushTarget:
    """A remote alias, a repository or a URL. Raises InvalidName."""
    if "://" in text:
        return _url(text, "DatasetPushTarget")
    if "/" in text:
        return _renamed(parse_dataset_alias_remote, text, "DatasetPushTarget")
    return parse_name(text, type_name="DatasetPushTarget")


def is_pattern(text: str) -> bool:
    """Whether the text is to be read as a pattern and not as a reference."""
    return "%" in text


def parse_dataset_pattern(text: str) -> DatasetPattern:
    """`[account/]pattern`. Raises InvalidName."""
    *accounts, last = text.split("/", 1)
    pattern = _name_pattern(last, whole=text, type_name="DatasetPattern")
    match accounts:
        case []:
            return DatasetPattern(None, pattern)
        case _:
            return DatasetPattern(_part(accounts[0], whole=text, type_name="DatasetPattern"), pattern)


def parse_dataset_pattern_remote(text: str) -> DatasetPatternRemote:
    """`repository/[account/]pattern`. Raises InvalidName."""
    type_name = "DatasetPatternRemote"
    *owners, last = text.split("/", 2)
    pattern = _name_pattern(last, whole=text, type_name=type_name)
    match [_part(owner, whole=text, type_name=type_name) for owner in owners]:
        case [repo]:
            return DatasetPatternRemote(repo, None, pattern)
        case [repo, account]:
            return DatasetPatternRemote(repo, account, pattern)
        case _:
            raise invalid_value(text, type_name, hint="expected repository/[account/]pattern")


def _names(text: str, type_name: str) -> list[Name]:
    return [_part(part, whole=text, type_name=type_name) for part in text.split("/", 3)]


def _part(part: str, *, whole: str, type_name: str) -> Name:
    try:
        return parse_name(part)
    except InvalidName as error:
        raise invalid_value(whole, type_name, hint=error.hint) from None


def _name_pattern(part: str, *, whole: str, type_name: str) -> NamePattern:
    if len(part) > NAME_CHARACTERS_MAX or _NAME_PATTERN.fullmatch(part) is None:
        raise invalid_value(whole, type_name, hint="a pattern is a name with % for any run of characters")
    return NamePattern(part)


def _identity(text: str, *, whole: str, type_name: str) -> DatasetId:
    try:
        return parse_dataset_id(text)
    except InvalidName as error:
        raise invalid_value(whole, type_name, hint=error.hint) from None


def _identity_or_url(text: str, type_name: str) -> DatasetId | DatasetIdRemote | DatasetUrl | None:
    if text.startswith(_DID):
        return _identity(text, whole=text, type_name=type_name)
    repo, slash, rest = text.partition("/")
    if slash and rest.startswith(_DID):
        name = _part(repo, whole=text, type_name=type_name)
        return DatasetIdRemote(name, _identity(rest, whole=text, type_name=type_name))
    return _url(text, type_name) if "://" in text else None


def _renamed(parse: Callable[[str], _Parsed], text: str, type_name: str) -> _Parsed:
    try:
        return parse(text)
    except InvalidName as error:
        raise invalid_value(text, type_name, hint=error.hint) from None


def _url(text: str, type_name: str) -> DatasetUrl:
    if len(text) > URL_CHARACTERS_MAX:
        raise invalid_value(text, type_name, hint=f"a URL has at most {URL_CHARACTERS_MAX} characters")
    if _URL.fullmatch(text) is None:
        raise invalid_value(text, type_name, hint="expected scheme://...")
    try:
        return DatasetUrl(_normal_url(urlsplit(text)))
    except ValueError as error:
        raise invalid_value(text, type_name, hint=str(error)) from None


def _normal_url(url: SplitResult) -> str:
    """A URL as clients of the reference print it.

    Scheme and host in lower case, no default port, path never empty.
    """
    scheme = url.scheme
    if scheme not in _DEFAULT_PORTS:
        return url.geturl()
    if not url.hostname:
        raise ValueError("the URL has no host")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    port = "" if url.port in (None, _DEFAULT_PORTS[scheme]) else f":{url.port}"
    userinfo, at, _ = url.netloc.rpartition("@")
    return url._replace(netloc=f"{userinfo}{at}{host}{port}", path=url.path or "/").geturl()

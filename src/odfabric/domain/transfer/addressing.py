"""Resolve a remote dataset's name by the known repositories and aliases.

Owns the choice of a repository and the URL below it; pure. Invariant: of several that fit none is guessed. Not here: asking a node which
account or name it has for a dataset (`usecases.transfer.resolve_remote`). Source: RFC-007.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from odfabric.domain.transfer.direction import scheme_of
from odfabric.errors import AmbiguousRepository, EmptyRepositoryList, InvalidRequest, NotFound, Place
from odfabric.model.identity import Name
from odfabric.model.transfer.repository import RemoteAlias, RemoteRepository

REPOSITORY_URL_CHARACTERS_MAX = 1000


def checked_repository_url(url: str) -> str:
    """The URL of a repository as it is kept: with a slash at its end.

    Raises InvalidRequest for a query, a fragment, a user or password, control characters or no path of a folder; UnsupportedProtocol.
    """
    place = Place(field="url")
    scheme = scheme_of(url)
    if len(url) > REPOSITORY_URL_CHARACTERS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidRequest(
            "not the URL of a repository",
            place=place,
            hint=f"printable ASCII, at most {REPOSITORY_URL_CHARACTERS_MAX} characters",
        )
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidRequest(f"not a URL: {error}", place=place) from None
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise InvalidRequest(
            "the URL of a repository takes no query", place=place, hint="leave out what follows ? or #"
        )
    if "@" in parts.netloc:
        raise InvalidRequest(
            "the URL of a repository must hold no credential", place=place, hint=_credential_hint(scheme)
        )
    if scheme != "file" and not parts.netloc:
        raise InvalidRequest("the URL names no host", place=place, hint=f"e.g. {scheme}://host/")
    try:
        parts.port  # noqa: B018 - reading it judges it
    except ValueError:
        raise InvalidRequest(
            f"the port in {parts.netloc} is not a number up to 65535", place=place, hint=f"e.g. {scheme}://host:8080/"
        ) from None
    return url.rstrip("/") + "/"


def _credential_hint(scheme: str) -> str:
    if scheme in ("s3", "s3+http", "s3+https"):
        return "leave it out, and set the keys of the bucket in ODF_REMOTE_S3_KEYS"
    return "leave it out, and log in (`odf login`) or set the token of its origin in ODF_REMOTE_TOKENS"


def find_repository(name: Name, repositories: Sequence[RemoteRepository]) -> RemoteRepository | None:
    """The repository of a name; an account's own goes before the node's."""
    found = [each for each in repositories if each.name == name]
    return next((each for each in found if each.account is not None), next(iter(found), None))


def named_repository(name: Name, repositories: Sequence[RemoteRepository]) -> RemoteRepository:
    """As `find_repository`. Raises NotFound, naming those that are known."""
    found = find_repository(name, repositories)
    if found is None:
        known = ", ".join(sorted({str(each.name) for each in repositories}))
        hint = f"known are {known}" if known else "`odf repo add NAME URL` makes one known"
        raise NotFound("repository", str(name), hint=hint)
    return found


def single_repository(repositories: Sequence[RemoteRepository]) -> RemoteRepository:
    """The only repository. Raises EmptyRepositoryList, AmbiguousRepository."""
    if not repositories:
        raise EmptyRepositoryList(
            "there is no repository to push to", hint="`odf repo add NAME URL`, or name a target with --to URL"
        )
    names = {each.name: each for each in sorted(repositories, key=lambda each: each.account is not None)}
    if len(names) > 1:
        listed = ", ".join(sorted(str(name) for name in names))
        raise AmbiguousRepository(
            f"there is more than one repository to push to: {listed}", hint="name one with --to NAME"
        )
    return next(iter(names.values()))


def single_push_target(aliases: Sequence[RemoteAlias]) -> str | None:
    """The only push alias, None if there is none. Raises AmbiguousRepository."""
    if len(aliases) > 1:
        listed = ", ".join(sorted(each.target for each in aliases))
        raise AmbiguousRepository(
            f"the dataset was pushed to more than one place: {listed}", hint="name one with --to TARGET"
        )
    return aliases[0].target if aliases else None


def dataset_url(repository: str, account: Name | None, name: Name) -> str:
    """URL of a dataset of a repository, ending with a slash."""
    parts = [part for part in (account, name) if part is not None]
    return repository.rstrip("/") + "/" + "".join(f"{quote(str(part), safe='')}/" for part in parts)

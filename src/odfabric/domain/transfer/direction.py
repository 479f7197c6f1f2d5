"""Which protocol a transfer speaks, by the schemes of its two ends.

Owns the table of section 1 of the transfer facts. Invariant: a scheme that nobody serves is refused by name, with the schemes that are.
Source: RFC-007, RFC-008.
"""

from __future__ import annotations

from enum import Enum

from odfabric.errors import InvalidRequest, Place, UnsupportedProtocol

LOCAL = "local"
"""Stands for the scheme of a dataset of this node or workspace."""
SMART_PREFIX = "odf+"
SIMPLE_SCHEMES = ("file", "http", "https", "s3", "s3+http", "s3+https")
SMART_SCHEMES = ("odf+http", "odf+https")
SERVED_SCHEMES = (*SIMPLE_SCHEMES, *SMART_SCHEMES)
_CONTENT_ADDRESSED = ("ipfs", "ipns")


class TransferProtocol(Enum):
    """SIMPLE moves single objects of a layout; SMART is a conversation with a node."""

    SIMPLE = "simple"
    SMART = "smart"


def scheme_of(url: str) -> str:
    """The scheme in lower case.

    Raises InvalidRequest for a text without one, UnsupportedProtocol for one that is not served.
    """
    scheme, colon, _ = url.partition(":")
    scheme = scheme.lower()
    if not colon:
        raise InvalidRequest(
            "not a URL",
            place=Place(field="url"),
            hint=f"a folder is file:///its/whole/path; other places begin with one of {_listed(SERVED_SCHEMES[1:])}",
        )
    if scheme not in SERVED_SCHEMES:
        raise UnsupportedProtocol(
            f"datasets are not moved over {scheme}://",
            place=Place(field="url"),
            hint=(
                f"put it into a folder or a bucket first; served are {_listed(SERVED_SCHEMES)}"
                if scheme in _CONTENT_ADDRESSED
                else f"use one of {_listed(SERVED_SCHEMES)}"
            ),
        )
    return scheme


def choose_protocol(source: str, destination: str) -> TransferProtocol:
    """The protocol between two schemes, one of which may be LOCAL.

    Raises UnsupportedProtocol where neither end is here: a node does not carry data between two others.
    """
    if LOCAL not in (source, destination):
        raise UnsupportedProtocol(
            f"nothing moves from {source}:// to {destination}:// directly",
            hint="pull the dataset first, then push it",
        )
    is_smart = source in SMART_SCHEMES or destination in SMART_SCHEMES
    return TransferProtocol.SMART if is_smart else TransferProtocol.SIMPLE


def without_smart_prefix(url: str) -> str:
    """The URL as plain HTTP knows it."""
    return url[len(SMART_PREFIX) :] if url[: len(SMART_PREFIX)].lower() == SMART_PREFIX else url


def _listed(schemes: tuple[str, ...]) -> str:
    return ", ".join(f"{scheme}://" for scheme in schemes)

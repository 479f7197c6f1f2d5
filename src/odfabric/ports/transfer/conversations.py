"""Smart conversations with other nodes, and the objects that messages link to.

Nothing that is heard is trusted: texts are read by `formats.smart`, objects are hashed by their receiver.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from odfabric.model.transfer.smart import ObjectUrl


@dataclass(frozen=True, slots=True)
class Closed:
    """The other end has closed the conversation, or the connection is gone (1006).

    `reason` is of at most 123 bytes.
    """

    code: int
    reason: str = ""


class Conversation(Protocol):
    """Texts back and forth. One thread hears at a time; several may speak."""

    def say(self, text: str) -> None:
        """Send a message.

        Raises Determinate if the conversation has ended, also because the other end does not read.
        """

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """The next message, in the order of sending.

        None if none has come within the time. After `Closed` nothing else comes.

        Raises InvalidRequest for what is no text, LimitExceeded for a message that is too long.
        """

    def end(self, code: int, reason: str) -> None:
        """Close, giving a reason of at most 123 bytes; nothing if it has ended."""


class Conversations(Protocol):
    """Begins conversations about datasets of other nodes."""

    def open(self, url: str, verb: Literal["pull", "push"]) -> AbstractContextManager[Conversation]:
        """Talk about the dataset under an `odf+http(s)://` URL.

        Uses the token of the URL's origin. Ends with the context at the latest.

        Raises InvalidRequest for a URL that is none and for a refusal that is none of the following; AccessDenied for a place that the
        guard refuses, and if the node does; Unauthenticated, NotFound, Determinate.
        """


class LinkedObjects(Protocol):
    """Objects at URLs that a peer has named.

    The guard of all outgoing requests is asked for each; the URLs are secrets and not shown.
    """

    def download(self, source: ObjectUrl, *, name: str, size_max: int, into: Path) -> int:
        """Read an object into a new file; its size. `name` is for messages.

        Raises NotFound, InvalidRequest, AccessDenied, LimitExceeded, Determinate, leaving no file.
        """

    def upload(self, target: ObjectUrl, *, name: str, path: Path) -> None:
        """Write an object from a file.

        Raises InvalidRequest, AccessDenied, Determinate, Indeterminate.
        """

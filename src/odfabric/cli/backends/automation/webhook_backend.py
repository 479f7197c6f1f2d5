"""Verbs of webhooks on a node over HTTP.

A workspace that only commands use sends none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from odfabric.cli.backends.cursor_backends import PathOf, Send


class NodeWebhooks:
    """A `WebhookBackend` on a node reached by HTTP."""

    def __init__(self, send: Send, path_of: PathOf) -> None:
        self._send = send
        self._path_of = path_of

    def listed(self, ref: str) -> list[dict[str, Any]]:
        """The subscriptions of a dataset that one may see."""
        found: list[dict[str, Any]] = self._send("GET", self._all(ref)).json()["subscriptions"]
        return found

    def add(
        self,
        ref: str,
        url: str,
        *,
        form: str,
        secret: str | None,
        events: Sequence[str] | None = None,
        moves: Mapping[str, object],
    ) -> dict[str, Any]:
        """The subscription with its secret.

        `moves` has members of the body, as `onlyWithData`.
        """
        wishes: dict[str, object] = {"url": url, "secret": secret}
        if not ref.startswith("@") or form != "cloudevents":
            wishes["format"] = form
        wishes |= {name: value for name, value in moves.items() if value}
        if events is not None:
            wishes["events"] = list(events)
        return self._object("POST", self._all(ref), json=wishes)

    def deliveries(self, ref: str, subscription: str) -> list[dict[str, Any]]:
        """The delivery log, newest first."""
        path = f"{self._all(ref)}/{subscription}/deliveries"
        found: list[dict[str, Any]] = self._send("GET", path).json()["deliveries"]
        return found

    def change(self, ref: str, subscription: str, *, paused: bool) -> dict[str, Any]:
        """The subscription, paused or resumed."""
        verb = "pause" if paused else "resume"
        return self._object("POST", f"{self._all(ref)}/{subscription}/{verb}", json={})

    def test(self, ref: str, subscription: str) -> dict[str, Any]:
        """What the receiver answered to a test event."""
        return self._object("POST", f"{self._all(ref)}/{subscription}/test", json={})

    def rotate(self, ref: str, subscription: str, *, overlap_s: int | None) -> dict[str, Any]:
        """The subscription with its new secret."""
        wishes = {} if overlap_s is None else {"overlapSeconds": overlap_s}
        return self._object("POST", f"{self._all(ref)}/{subscription}/rotate-secret", json=wishes)

    def replay(self, ref: str, subscription: str, *, from_sequence: int | None) -> dict[str, Any]:
        """How many deliveries go out again: all from a sequence on, or all that failed."""
        which = {"failed": True} if from_sequence is None else {"fromSequence": from_sequence}
        return self._object("POST", f"{self._all(ref)}/{subscription}/replay", json=which)

    def remove(self, ref: str, subscription: str) -> dict[str, Any]:
        """`{id}` of what has ended."""
        self._send("DELETE", f"{self._all(ref)}/{subscription}")
        return {"id": subscription}

    def _all(self, ref: str) -> str:
        if ref == "@":
            return "/subscriptions"
        if ref.startswith("@"):
            return f"/accounts/{quote(ref[1:], safe='')}/subscriptions"
        return f"{self._path_of(ref)}/subscriptions"

    def _object(self, method: str, path: str, **arguments: object) -> dict[str, Any]:
        found: dict[str, Any] = self._send(method, path, **arguments).json()
        return found

"""Named places at which a drill kills the process as a power cut would.

Owns the names and how one is armed. Every call with an effect has a point before and one after it. Invariant: a process that arms
none runs its ports unwrapped. `ODF_CRASH_AT` is `name` or `name@n`: the n-th time (from 1) that the process gets there.
Source: docs/threat-model.md.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from odfabric.adapters.unreliable.interception import Interceptor, Port
from odfabric.adapters.unreliable.port_calls import PortCalls
from odfabric.errors import InvalidRequest

T = TypeVar("T")

_CALLS: Mapping[str, str] = {
    "keys.create": "making the key pair of a new dataset",
    "keys.keep": "sealing a key of a dataset that was imported",
    "head_log.add": "continuing the log of a head that had moved without it, or a copy's",
    "head_log.replace": "taking another log of heads, when that is forced",
    "head_log.hand_over": "giving a dataset another key, with the entry that hands it over",
    "head_log.note_seen": "remembering what was seen of a dataset elsewhere",
    "node_key.begin": "making a new key of the node current",
    "node_key.drop_old": "taking away the keys of the node before the current one, after a last look at all secrets",
    "sealed.replace": "storing secrets that are sealed with the new key of the node",
    "object.info.put": "writing the alias of a new dataset beside its objects",
    "object.block.put": "storing a metadata block, before its commit",
    "object.data.put": "storing a data slice, before its commit",
    "object.checkpoint.put": "storing a checkpoint of the engine, before its commit",
    "object.staging.put": "storing the body of a push, before its job",
    "object.staging.delete": "removing the body of a push whose job is finished",
    "parts.begin": "beginning an upload whose parts clients send to the object store",
    "parts.complete": "making one object of the parts of an upload, before its job",
    "parts.abort": "removing an upload with its parts",
    "object.name.put": "saying which dataset has a name, where nodes share the objects",
    "object.ref.put": "publishing a head, after its commit; the commit itself where nodes share the objects",
    "object.ref.delete": "withdrawing the head of a deleted dataset",
    "intent.add": "noting what is about to be committed, where nodes share the objects",
    "intent.drop": "taking that note away, after the rows of the commit",
    "chain.append": "the commit: head, index, idempotency records and outbox message in one transaction",
    "chain.adopt": "taking a chain of the object store back into the database, in one transaction",
    "chain.remove": "deleting a dataset",
    "chain.replace": "putting other blocks in the place of a part of a chain, in one transaction",
    "chain.rename": "giving a dataset another name",
    "job.enqueue": "queueing a job",
    "job.lease": "looking for a job and taking it",
    "job.heartbeat": "prolonging the lease of a job with its progress",
    "job.succeed": "recording that a job succeeded",
    "job.fail": "recording that a job failed for good",
    "job.retry": "putting a job back for another attempt",
    "job.cancel": "cancelling a job",
    "flow.write": "storing a flow, one of its runs, or both",
    "flow.delete": "deleting a flow with its runs",
    "flow.drop_run": "deleting a run that found nothing to do",
    "flow.forget": "deleting old runs of a flow",
    "role.hold": "taking the role of the scheduler, or keeping it",
    "role.release": "giving the role of the scheduler back",
    "outbox.fan_out": "making the deliveries of a commit",
    "removed.forget": "taking the mark off a deleted dataset of which nothing is left",
    "index.extend": "bringing a current-state index forward by some blocks",
    "index.maintain": "compacting a current-state index",
    "index.drop": "giving the current-state indexes of a dataset up",
    "search.put": "storing what a dataset is searched by",
    "subscription.create": "storing a subscription",
    "subscription.delete": "deleting a subscription",
    "subscription.rotate": "giving a subscription another secret",
    "subscription.drop_old": "removing secrets of subscriptions that sign no more",
    "signing_key.add": "giving the node a key for signatures, and retiring the one before it",
    "signing_key.forget": "removing keys for signatures that were retired long ago",
    "subscription.state": "pausing, resuming or disabling a subscription",
    "subscription.test": "noting that a receiver was tried",
    "cursor.create": "making the cursor of a consumer",
    "cursor.move": "moving a cursor to what its consumer has acknowledged, prolonging its lease, or handing it over",
    "cursor.delete": "deleting a cursor",
    "delivery.lease": "looking for due deliveries and taking them",
    "delivery.succeed": "recording that a webhook was delivered",
    "delivery.fail": "recording that an attempt at a webhook failed",
    "delivery.replay": "making deliveries of a subscription pending again",
    "account.create": "making an account, and of an organisation its first admin",
    "account.change": "changing an account",
    "account.delete": "deleting an account with all that refers to it",
    "account.set_password": "storing a password and ending the browser sessions of its account",
    "account.link_identity": "letting an identity of a provider sign in as an account",
    "relation.change_membership": "making, changing or removing a member of an organisation",
    "relation.change_grant": "giving, changing or taking back a role on a dataset",
    "token.create": "storing an access token",
    "token.revoke": "ending access tokens",
    "token.use": "remembering the last use of an access token",
    "saved_query.create": "storing a saved query",
    "saved_query.change": "changing a saved query",
    "saved_query.delete": "deleting a saved query",
    "variable.set": "storing a variable or secret of a dataset",
    "variable.delete": "deleting a variable or secret of a dataset",
    "repository.add": "storing a repository elsewhere",
    "repository.remove": "deleting a repository elsewhere",
    "alias.add": "remembering where a dataset was pushed to",
    "alias.remove": "forgetting where a dataset was pushed to",
    "destination.put": "storing a slice or checkpoint at the place that a dataset is pushed to",
    "destination.publish": "storing the blocks of a dataset where it is pushed to, and moving its head there",
    "talk.say": "sending a message of the Smart protocol to a peer, in either role",
    "talk.end": "closing a conversation of the Smart protocol",
    "link.upload": "writing an object where a message of a peer says",
    "peer.send_ref": "sending the signed log of heads behind a push to a node",
    "token.forget": "deleting access tokens that ended long ago",
    "invitation.create": "storing an invitation",
    "invitation.use": "using an invitation, which makes its account or changes a password",
    "invitation.revoke": "deleting an unused invitation",
    "device.create": "storing a device that waits for a person",
    "device.decide": "storing what a person says to a device",
    "device.ask": "remembering a question of a device",
    "device.redeem": "giving an approved device its access token, once",
    "audit.add": "appending an audit entry about something that is stored nowhere else",
    "audit.refuse": "appending a refusal to the audit log, or counting it",
    "audit.flush": "marking audit entries as being in the audit dataset",
    "audit.forget": "deleting old audit entries that are in the audit dataset",
    "webhook.post": "sending a webhook",
    "engine.ingest": "reading, merging and writing a slice in the engine",
    "engine.transform": "a transaction of a derivative dataset in the engine",
    "engine.validate": "judging the SQL of a transform in the engine",
    "engine.query": "a user's query in the engine",
}

CRASH_POINT_TEXTS: Mapping[str, str] = {
    f"{call}:{when}": f"{when} {text}" for call, text in _CALLS.items() for when in ("before", "after")
}
"""What happens at each point, in one line."""

CRASH_POINTS: tuple[str, ...] = tuple(CRASH_POINT_TEXTS)

_OFTEN_IDLE = frozenset({"job.lease", "delivery.lease"})
"""Workers ask many times a second; `after` means that they got something."""

_ARMED = re.compile(r"(?P<name>[^@]+)(?:@(?P<hit>[1-9][0-9]{0,8}))?")


class CrashPoints(Interceptor):
    """The points of this process, of which at most one is armed."""

    def __init__(self, armed: str | None, *, hit: int = 1) -> None:
        """`armed` is what `ODF_CRASH_AT` says; a number in it wins over `hit`.

        Raises InvalidRequest for an unknown point.
        """
        self._lock = threading.Lock()
        self._name: str | None = None
        self._left = hit
        if armed:
            self._name, self._left = _parse(armed, hit)

    @property
    def armed(self) -> bool:
        """Whether this process is going to die."""
        return self._name is not None

    def wrap(self, port: Port, calls: PortCalls) -> Port:
        """The port itself if nothing is armed."""
        return super().wrap(port, calls) if self.armed else port

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        """See the base."""
        if not effect:
            return act()
        self.reach(f"{call}:before")
        result = act()
        if result or call not in _OFTEN_IDLE:
            self.reach(f"{call}:after")
        return result

    def reach(self, name: str) -> None:
        """Kill this process with SIGKILL if this is the armed point and its time has come."""
        if name != self._name:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _parse(armed: str, hit: int) -> tuple[str, int]:
    match = _ARMED.fullmatch(armed)
    if match is None or match["name"] not in CRASH_POINT_TEXTS:
        near = get_close_matches(armed.partition("@")[0], CRASH_POINTS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`odf system crash-points` lists them"
        raise InvalidRequest(f"no crash point {armed!r}; expected one of the listed names, or name@n", hint=hint)
    return match["name"], int(match["hit"] or hit)

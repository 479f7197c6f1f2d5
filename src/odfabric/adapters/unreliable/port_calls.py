"""Which calls of which ports count.

Owns what each call is named, and whether it has an effect outside the process. Names are `<port>.<verb>`, for objects
`object.<kind>.<verb>`, and are the same in fault plans and crash points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_KINDS = {
    "blocks": "block",
    "data": "data",
    "checkpoints": "checkpoint",
    "refs": "ref",
    "info": "info",
}


_AREAS = {"staging": "staging", "names": "name"}


def object_kind(key: str) -> str:
    """Kind of an object by its key.

    Block, data, checkpoint, ref, info, name, staging or other.
    """
    parts = key.split("/")
    if parts[0] in _AREAS:
        return _AREAS[parts[0]]
    if parts[0] in _KINDS:  # in the store of a single dataset
        return _KINDS[parts[0]]
    return _KINDS.get(parts[1], "other") if len(parts) > 1 else "other"


@dataclass(frozen=True, slots=True)
class PortCalls:
    """Names of calls by method: those with an effect, and those that only read.

    `of_objects` names them by the kind of key.
    """

    effects: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)
    of_objects: bool = False

    def name(self, method: str, arguments: tuple[Any, ...]) -> str:
        """The name of a call."""
        name = self.effects.get(method) or self.reads[method]
        return f"object.{object_kind(arguments[0])}.{name}" if self.of_objects else name


CHAINS = PortCalls(
    effects={
        "append": "chain.append",
        "adopt": "chain.adopt",
        "remove": "chain.remove",
        "rename": "chain.rename",
        "replace": "chain.replace",
    },
    reads={name: f"chain.{name}" for name in ("head", "contains", "row", "rows_down", "idempotency", "commit_of_job")},
)
HEAD_LOGS = PortCalls(
    effects={
        "add": "head_log.add",
        "replace": "head_log.replace",
        "hand_over": "head_log.hand_over",
        "note_seen": "head_log.note_seen",
    },
    reads={name: f"head_log.{name}" for name in ("last", "lines", "handovers", "seen")},
)
CATALOG = PortCalls(reads={name: f"catalog.{name}" for name in ("by_id", "by_alias", "page", "found", "facets")})
SEARCH_DOCUMENTS = PortCalls(effects={"put": "search.put"}, reads={"behind": "search.behind"})
SAVED_QUERIES = PortCalls(
    effects={"create": "saved_query.create", "change": "saved_query.change", "delete": "saved_query.delete"},
    reads={"get": "saved_query.get", "of_account": "saved_query.of_account"},
)
OBJECTS = PortCalls(
    effects={
        "put_bytes": "put",
        "put_file": "put",
        "put_stream": "put",
        "write_ref": "put",
        "replace_ref": "put",
        "delete": "delete",
    },
    reads={
        "read_bytes": "read",
        "read_end": "read",
        "open": "read",
        "stat": "stat",
        "materialize": "read",
        "keys": "list",
        "exclusive": "lock",
        "read_ref": "read",
    },
    of_objects=True,
)
PART_UPLOADS = PortCalls(
    effects={"begin": "parts.begin", "complete": "parts.complete", "abort": "parts.abort"},
    reads={"link": "parts.link", "stored": "parts.stored", "unfinished": "parts.unfinished"},
)
JOBS = PortCalls(
    effects={
        "enqueue": "job.enqueue",
        "lease": "job.lease",
        "lease_one": "job.lease",
        "heartbeat": "job.heartbeat",
        "succeed": "job.succeed",
        "fail": "job.fail",
        "retry": "job.retry",
        "give_back": "job.retry",
        "cancel": "job.cancel",
    },
    reads={
        "get": "job.get",
        "page": "job.page",
        "bodies": "job.bodies",
        "following": "job.following",
        "queued": "job.queued",
        "pushes_waiting": "job.pushes_waiting",
    },
)
FLOWS = PortCalls(
    effects={"write": "flow.write", "delete": "flow.delete", "drop_run": "flow.drop_run", "forget": "flow.forget"},
    reads={
        name: f"flow.{name}"
        for name in (
            "get",
            "of_dataset",
            "of_kind",
            "page",
            "due",
            "next_due",
            "run",
            "waiting",
            "unfinished",
            "runs",
            "last_runs",
            "last_wave",
        )
    },
)
ROLES = PortCalls(effects={"hold": "role.hold", "release": "role.release"})
INTENTS = PortCalls(effects={"add": "intent.add", "drop": "intent.drop"}, reads={"all": "intent.all"})
OUTBOX = PortCalls(
    effects={"fan_out": "outbox.fan_out"}, reads={"pending": "outbox.pending", "wanted": "outbox.wanted"}
)
REMOVED = PortCalls(
    effects={"forget": "removed.forget"},
    reads={"removed_at": "removed.removed_at", "removed_before": "removed.removed_before"},
)
STATE_INDEX = PortCalls(
    effects={"extend": "index.extend", "maintain": "index.maintain", "drop": "index.drop"},
    reads={"frontier": "index.frontier", "rows_at": "index.rows_at"},
)
CURSORS = PortCalls(
    effects={"create": "cursor.create", "claim": "cursor.move", "move": "cursor.move", "delete": "cursor.delete"},
    reads={"get": "cursor.get", "of_dataset": "cursor.of_dataset"},
)
SUBSCRIPTIONS = PortCalls(
    effects={
        "create": "subscription.create",
        "delete": "subscription.delete",
        "set_secret": "subscription.rotate",
        "drop_old_secrets": "subscription.drop_old",
        "set_state": "subscription.state",
        "note_test": "subscription.test",
    },
    reads={
        name: f"subscription.{name}" for name in ("get", "secrets", "of_dataset", "of_account", "of_node", "counted")
    },
)
DELIVERIES = PortCalls(
    effects={
        "lease_due": "delivery.lease",
        "record_success": "delivery.succeed",
        "record_failure": "delivery.fail",
        "replay": "delivery.replay",
    },
    reads={name: f"delivery.{name}" for name in ("of_subscription", "get", "attempts")},
)
ACCOUNTS = PortCalls(
    effects={
        "create": "account.create",
        "change": "account.change",
        "delete": "account.delete",
        "set_password": "account.set_password",
        "link_identity": "account.link_identity",
    },
    reads={
        name: f"account.{name}"
        for name in ("by_id", "by_name", "by_identity", "identities", "page", "admins", "password_hash")
    },
)
RELATIONS = PortCalls(
    effects={"change_membership": "relation.change_membership", "change_grant": "relation.change_grant"},
    reads={name: f"relation.{name}" for name in ("memberships", "membership", "members", "grants", "grant", "granted")},
)
TOKENS = PortCalls(
    effects={
        "create": "token.create",
        "revoke": "token.revoke",
        "revoke_all": "token.revoke",
        "used": "token.use",
        "forget": "token.forget",
    },
    reads={"get": "token.get", "of_account": "token.of_account"},
)
INVITATIONS = PortCalls(
    effects={"create": "invitation.create", "use": "invitation.use", "revoke": "invitation.revoke"},
    reads={name: f"invitation.{name}" for name in ("by_code", "get", "open")},
)
DEVICES = PortCalls(
    effects={name: f"device.{name}" for name in ("create", "decide", "ask", "redeem")},
    reads={"by_user_code": "device.by_user_code"},
)
AUDIT_LOG = PortCalls(
    effects={"add": "audit.add", "refused": "audit.refuse", "flushed": "audit.flush", "forget": "audit.forget"},
    reads={"page": "audit.page", "unflushed": "audit.unflushed"},
)
SIGNING_KEYS = PortCalls(
    effects={"add": "signing_key.add", "forget_retired": "signing_key.forget"},
    reads={"current": "signing_key.current", "all": "signing_key.all"},
)
VARIABLES = PortCalls(
    effects={"set": "variable.set", "delete": "variable.delete"},
    reads={"of_dataset": "variable.of_dataset", "value": "variable.value"},
)
WEBHOOKS = PortCalls(effects={"post": "webhook.post"})
ENGINE = PortCalls(
    effects={
        "ingest": "engine.ingest",
        "execute_transform": "engine.transform",
        "validate_query": "engine.validate",
        "query": "engine.query",
    },
    reads={"info": "engine.info", "migrate_query": "engine.migrate", "derive_provenance": "engine.provenance"},
)
KEYS = PortCalls(
    effects={"create": "keys.create", "keep": "keys.keep"},
    reads={name: f"keys.{name}" for name in ("public", "sign", "reveal")},
)
NODE_KEY = PortCalls(effects={"begin": "node_key.begin", "drop_old": "node_key.drop_old"})
SEALED_STORE = PortCalls(effects={"replace": "sealed.replace"}, reads={"rows": "sealed.rows"})
HTTP_SOURCE = PortCalls(reads={"fetch": "source.fetch"})
POLLING_FILES = PortCalls(reads={"glob": "source.glob", "file": "source.file"})
PREPARATION = PortCalls(
    reads={"decompress_gzip": "source.decompress", "decompress_zip": "source.decompress", "copy": "source.copy"}
)
CONTAINERS = PortCalls(reads={"fetch": "source.fetch"})
PROGRAMS = PortCalls(reads={"run": "source.pipe"})
SAVEPOINTS = PortCalls(reads={"keep": "savepoint.keep", "find": "savepoint.find", "drop": "savepoint.drop"})
# No crash point: nothing of ours changes, and a message that a dead process has not acknowledged comes again.
MESSAGE_BATCH = PortCalls(reads={"acknowledge": "source.acknowledge"})
REPOSITORIES = PortCalls(
    effects={
        "add": "repository.add",
        "remove": "repository.remove",
        "add_alias": "alias.add",
        "remove_alias": "alias.remove",
    },
    reads={"of": "repository.of", "aliases": "alias.of"},
)
DESTINATION = PortCalls(
    effects={"put": "destination.put", "publish": "destination.publish"},
    reads={name: f"destination.{name}" for name in ("head", "block", "ref", "sizes")},
)
REMOTE = PortCalls(
    reads={
        "head": "remote.head",
        "block": "remote.block",
        "blocks": "remote.block",
        "ref": "remote.ref",
        "download": "remote.download",
    }
)
TALK = PortCalls(effects={"say": "talk.say", "end": "talk.end"}, reads={"hear": "talk.hear"})
LINKED = PortCalls(effects={"upload": "link.upload"}, reads={"download": "link.download"})
PEERS = PortCalls(
    effects={"send_ref": "peer.send_ref"},
    reads={
        name: f"peer.{name}"
        for name in ("has_accounts", "own_account", "name_of", "search", "why", "queued_why", "has_key")
    },
)
EXCHANGE = PortCalls(reads={"session": "exchange.session"})

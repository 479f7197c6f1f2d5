"""What each route needs: the one table that tests hold the routes against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odfabric.domain.people.access import Action
from tests.services.api.needs import (
    ADMIN,
    ANY_HASH,
    ANY_ID,
    ANYBODY,
    CHANGED,
    CREATE,
    FENCE,
    FOLLOW,
    INVALID,
    MANAGE,
    MANAGE_OWN,
    MEMBER,
    MISSING,
    NAME,
    PUBLIC,
    PUSH,
    READ,
    READER,
    SHARE,
    SIGNED_IN,
    TYPES,
    WRITE,
    OnDataset,
    Pulled,
    Rule,
    manifest_of,
    owner_in,
    rule,
)
from tests.services.api.page_rules import PAGE_RULES
from tests.services.api.people import PASSWORD
from tests.usecases.manifests import DERIVED, ROOT

_UNKNOWN: Mapping[str, Any] = {"status": 404, "code": "not-found", "path": {"subscription_id": ANY_ID}}
_WEAK = {"url": "https://a.example/x", "secret": "weak"}
_PART = {"content-type": "application/partial-upload", "upload-offset": "0"}
UPLOADS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("GET", "", {}),
    ("HEAD", "", {}),
    ("GET", "/parts", {}),
    ("PATCH", "", {"headers": _PART, "body": "x"}),
    ("DELETE", "", {}),
    ("POST", "/ingest", {"json": {"digest": "sha-256=" + "0" * 64}}),
)
WIDE_SUBSCRIPTIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("POST", "", {"status": 400, "code": "invalid-request", "json": _WEAK}),
    ("GET", "", {}),
    ("GET", "/{subscription_id}", _UNKNOWN),
    ("DELETE", "/{subscription_id}", _UNKNOWN),
    ("POST", "/{subscription_id}/pause", _UNKNOWN),
    ("POST", "/{subscription_id}/resume", _UNKNOWN),
    ("POST", "/{subscription_id}/test", _UNKNOWN),
    ("POST", "/{subscription_id}/rotate-secret", {**_UNKNOWN, "json": {}}),
    ("POST", "/{subscription_id}/replay", {**_UNKNOWN, "json": {"failed": True}}),
    ("GET", "/{subscription_id}/deliveries", _UNKNOWN),
    *(
        (
            method,
            f"/{{subscription_id}}/deliveries/{{delivery_id}}{path}",
            {**_UNKNOWN, "path": dict.fromkeys(("subscription_id", "delivery_id"), ANY_ID)},
        )
        for method, path in (("GET", ""), ("POST", "/replay"))
    ),
)

RULES: Mapping[tuple[str, str], Rule] = {
    # Everybody's: they tell nothing of anybody, or are the way in.
    ("GET", "/system/health"): PUBLIC,
    ("GET", "/info"): PUBLIC,
    ("GET", "/.well-known/http-message-signatures-directory"): PUBLIC,
    ("GET", "/.well-known/jwks.json"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/asyncapi.json"): PUBLIC,
    ("GET", "/assets/runtime-config.json"): PUBLIC,
    ("GET", "/login"): PUBLIC,
    ("GET", "/setup"): Rule(needs=(), allowed=((404, ""),)),
    ("GET", "/device"): PUBLIC,
    # There is no provider of the name in the request, and no browser that has been sent to one.
    ("GET", "/oidc/{provider}/start"): Rule(needs=(), allowed=((404, ""),), path={"provider": "nobody"}),
    ("GET", "/oidc/{provider}/callback"): Rule(needs=(), allowed=((400, ""),), path={"provider": "nobody"}),
    ("GET", "/platform/token/validate"): Rule(
        needs=(), allowed=((200, ""), (400, "invalid-request"), (401, "token-expired"))
    ),
    ("POST", "/platform/login"): Rule(needs=(), allowed=(INVALID,), json={}),
    ("POST", "/platform/token/device/authorization"): Rule(
        needs=(), allowed=((415, "unsupported-media-type"),), json={}
    ),
    ("POST", "/platform/token/device"): Rule(needs=(), allowed=((415, "unsupported-media-type"),), json={}),
    ("POST", "/session"): Rule(needs=(), allowed=(INVALID, (403, "access-denied")), json={}),
    ("POST", "/login"): Rule(needs=(), allowed=((415, "unsupported-media-type"), (403, "access-denied")), json={}),
    ("POST", "/setup"): Rule(needs=(), allowed=((415, "unsupported-media-type"), (403, "access-denied")), json={}),
    ("POST", "/device"): Rule(needs=(), allowed=((415, "unsupported-media-type"),), json={}),
    # As oneself.
    ("GET", "/session"): Rule(needs=(SIGNED_IN,), allowed=((200, ""), MISSING)),
    ("DELETE", "/session"): Rule(needs=(SIGNED_IN,), allowed=((204, ""), MISSING)),
    ("GET", "/accounts/me"): rule(SIGNED_IN),
    ("PUT", "/accounts/me/password"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN),
        allowed=(INVALID, (403, "access-denied")),
        json={"oldPassword": PASSWORD, "password": "short"},
    ),
    ("GET", "/accounts/{name}"): rule(SIGNED_IN, READER, path={"name": owner_in}),
    ("PATCH", "/accounts/{name}"): rule(SIGNED_IN, MANAGE, path={"name": owner_in}, json={}),
    ("DELETE", "/accounts/{name}"): rule(SIGNED_IN, MANAGE, status=409, code="in-use", path={"name": owner_in}),
    ("POST", "/orgs"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(NAME, INVALID), json={"name": "jobs"}),
    ("GET", "/orgs/{name}/members"): rule(SIGNED_IN, MEMBER, READER, path={"name": owner_in}),
    ("PUT", "/orgs/{name}/members/{member}"): rule(
        *(SIGNED_IN, MEMBER, MANAGE),
        status=412,
        code="changed",
        path={"name": owner_in, "member": "spare"},
        headers=CHANGED,
        json={"role": "admin"},
    ),
    ("DELETE", "/orgs/{name}/members/{member}"): rule(
        *(SIGNED_IN, MEMBER, MANAGE),
        status=412,
        code="changed",
        path={"name": owner_in, "member": "spare"},
        headers=CHANGED,
    ),
    ("GET", "/accounts/me/queries"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/accounts/me/queries"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=400, code="invalid-request", json={"name": "x", "sql": ""}
    ),
    **{
        (method, "/accounts/me/queries/{query_id}"): rule(
            *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"query_id": ANY_ID}, **given
        )
        for method, given in (("GET", {}), ("PATCH", {"json": {"name": "x"}}), ("DELETE", {}))
    },
    ("GET", "/accounts/me/repositories"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/accounts/me/repositories"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=400, code="unsupported-protocol", json={"name": "x", "url": "ftp://x/"}
    ),
    ("DELETE", "/accounts/me/repositories/{name}"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"name": "none"}
    ),
    ("GET", "/accounts/me/repositories/{name}/datasets"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"name": "none"}
    ),
    ("POST", "/tokens"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(INVALID,), json={"name": "x", "scopes": []}),
    ("GET", "/tokens"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/tokens/inspect"): rule(SIGNED_IN, status=400, code="invalid-request", json={"token": "nonsense"}),
    ("DELETE", "/tokens/{token_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"token_id": ANY_ID}),
    ("GET", "/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("GET", "/jobs/{job_id}/answer"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("DELETE", "/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("GET", "/flows"): rule(SIGNED_IN),
    ("GET", "/runs/{run_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}),
    ("DELETE", "/runs/{run_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}),
    # Admins of the node.
    ("GET", "/system/metrics"): rule(ADMIN),
    ("GET", "/system/duties"): rule(ADMIN),
    ("GET", "/admin/accounts"): rule(ADMIN),
    ("POST", "/admin/accounts"): rule(ADMIN, status=400, code="invalid-name", json={"name": "jobs"}),
    ("PATCH", "/admin/accounts/{name}"): rule(ADMIN, path={"name": "spare"}, json={}),
    ("PUT", "/admin/accounts/{name}/limits"): rule(ADMIN, path={"name": "spare"}, json={}),
    ("POST", "/admin/invitations"): rule(ADMIN, status=400, code="invalid-name", json={"name": "jobs"}),
    ("GET", "/admin/invitations"): rule(ADMIN),
    ("DELETE", "/admin/invitations/{invitation_id}"): rule(
        ADMIN, status=404, code="not-found", path={"invitation_id": ANY_ID}
    ),
    ("GET", "/admin/explain"): rule(ADMIN, params={"dataset": lambda scene: scene.shown}),
    ("GET", "/admin/audit"): rule(ADMIN),
    ("POST", "/admin/repositories"): rule(
        ADMIN, status=400, code="unsupported-protocol", json={"name": "x", "url": "ftp://x/"}
    ),
    ("DELETE", "/admin/repositories/{name}"): rule(ADMIN, status=404, code="not-found", path={"name": "none"}),
    # The catalog.
    ("GET", "/datasets"): rule(ANYBODY),
    ("POST", "/datasets"): rule(
        SIGNED_IN, CREATE, status=409, code="already-exists", body=manifest_of(ROOT), headers=TYPES
    ),
    ("GET", "/datasets/{dataset_id}"): rule(OnDataset(Action.READ, by_id=True)),
    ("DELETE", "/datasets/{dataset_id}"): rule(
        OnDataset(Action.DELETE, by_id=True), status=409, code="head-moved", headers={"if-match": ANY_HASH}
    ),
    ("GET", "/query"): rule(ANYBODY, status=400, code="invalid-query", params={"query": "select nothing"}),
    ("POST", "/query"): rule(ANYBODY, status=400, code="invalid-query", json={"query": "select nothing"}),
    # Datasets, by their names.
    ("PUT", "/{account}/{dataset}/name"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-name", json={"name": "no such name!"}
    ),
    ("GET", "/{account}/{dataset}/history"): rule(READ),
    ("GET", "/{account}/{dataset}/reports"): rule(READ),
    ("POST", "/{account}/{dataset}/reports"): rule(FOLLOW, status=422, code="invalid-data", json={}),
    ("DELETE", "/{account}/{dataset}/reports/{report_id}"): rule(
        WRITE, status=404, code="not-found", path={"report_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/reset"): rule(
        OnDataset(Action.REWRITE), status=400, code="invalid-request", json={"toSequence": 0}
    ),
    ("POST", "/{account}/{dataset}/compact"): rule(OnDataset(Action.REWRITE), status=202, json={}),
    ("POST", "/{account}/{dataset}/key/rotate"): rule(OnDataset(Action.REWRITE)),
    ("POST", "/{account}/{dataset}/key/export"): rule(
        OnDataset(Action.REWRITE), status=400, code="invalid-request", json={"passphrase": "short"}
    ),
    ("POST", "/{account}/{dataset}/key/import"): rule(
        OnDataset(Action.REWRITE), status=400, code="invalid-request", json={"document": "x", "passphrase": "y"}
    ),
    ("PUT", "/{account}/{dataset}/watermark"): rule(
        WRITE, status=400, code="invalid-request", json={"watermark": "tomorrow"}
    ),
    ("PUT", "/{account}/{dataset}/transform"): rule(
        WRITE, status=422, code="invalid-manifest", body=manifest_of(DERIVED), headers=TYPES
    ),
    ("PUT", "/{account}/{dataset}/sources"): rule(WRITE, body=manifest_of(ROOT), headers=TYPES),
    ("PUT", "/{account}/{dataset}/info"): rule(
        WRITE, status=422, code="invalid-manifest", body=manifest_of(ROOT), headers=TYPES
    ),
    ("POST", "/{account}/{dataset}/pull"): rule(Pulled(), status=202, json={}),
    ("GET", "/{account}/{dataset}/flows"): rule(WRITE),
    ("PUT", "/{account}/{dataset}/flows/{kind}"): rule(
        WRITE, status=400, code="invalid-request", path={"kind": "poll"}, json={"trigger": {"every": "1s"}}
    ),
    ("DELETE", "/{account}/{dataset}/flows/{kind}"): rule(WRITE, status=404, code="not-found", path={"kind": "verify"}),
    ("PATCH", "/{account}/{dataset}/flows/{kind}"): rule(
        WRITE, status=404, code="not-found", path={"kind": "verify"}, json={"paused": True}
    ),
    ("POST", "/{account}/{dataset}/flows/{kind}/runs"): rule(
        WRITE, status=404, code="not-found", path={"kind": "verify"}, json={}
    ),
    ("POST", "/{account}/{dataset}/verify"): rule(FOLLOW, status=202, json={}),
    ("POST", "/{account}/{dataset}/ingest"): rule(
        PUSH, status=415, code="unsupported-media-type", body="x", headers={"content-type": "image/png"}
    ),
    ("POST", "/{account}/{dataset}/uploads"): rule(PUSH, status=400, code="invalid-request", json={"size": 0}),
    **{
        (method, f"/{{account}}/{{dataset}}/uploads/{{upload_id}}{path}"): rule(
            PUSH, status=404, code="not-found", path={"upload_id": ANY_ID}, **given
        )
        for method, path, given in UPLOADS
    },
    ("GET", "/{account}/{dataset}/tail"): rule(READ),
    ("GET", "/{account}/{dataset}/metadata"): rule(READ),
    ("GET", "/{account}/{dataset}/state"): rule(READ),
    ("GET", "/{account}/{dataset}/why"): rule(READ, status=404, code="not-found", params={"offset": "999999"}),
    ("POST", "/{account}/{dataset}/why"): rule(READ, status=404, code="not-found", json={"offsets": [999999]}),
    **{
        (method, f"/{{account}}/{{dataset}}/{folder}/{{name}}"): rule(
            READ, status=404, code="not-found", path={"name": ANY_HASH}
        )
        for method in ("GET", "HEAD")
        for folder in ("blocks", "data", "checkpoints")
    },
    **{
        ("PUT", f"/{{account}}/{{dataset}}/{folder}/{{name}}"): rule(
            WRITE, status=422, code="corrupted-source", path={"name": ANY_HASH}, body="x"
        )
        for folder in ("data", "checkpoints")
    },
    ("POST", "/{account}/{dataset}/push"): rule(WRITE, status=400, code="invalid-request", json={"to": 1}),
    ("GET", "/{account}/{dataset}/aliases"): rule(WRITE),
    ("DELETE", "/{account}/{dataset}/aliases"): rule(WRITE, status=404, code="not-found", params={"target": "none"}),
    ("GET", "/{account}/{dataset}/refs/{name}"): rule(READ, path={"name": "head"}),
    ("HEAD", "/{account}/{dataset}/refs/{name}"): rule(READ, path={"name": "head"}),
    ("PUT", "/{account}/{dataset}/refs/{name}"): rule(
        WRITE, status=422, code="corrupted-source", path={"name": "head.log"}, body="x"
    ),
    ("GET", "/{account}/{dataset}/heads"): rule(READ),
    **{
        (method, f"{prefix}{path}"): rule(*needs, **given)
        for prefix, needs in (("/accounts/{account}/subscriptions", (SIGNED_IN, MANAGE)), ("/subscriptions", (ADMIN,)))
        for method, path, given in WIDE_SUBSCRIPTIONS
    },
    ("POST", "/{account}/{dataset}/subscriptions"): rule(
        FOLLOW, status=400, code="invalid-request", json={"url": "https://a.example/x", "secret": "weak"}
    ),
    ("GET", "/{account}/{dataset}/subscriptions"): rule(FOLLOW),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/pause"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/resume"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/rotate-secret"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, json={}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/test"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, json={"failed": True}
    ),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries/{delivery_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries/{delivery_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}
    ),
    ("DELETE", "/{account}/{dataset}/subscriptions/{subscription_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("GET", "/{account}/{dataset}/changes"): rule(FOLLOW),
    ("POST", "/{account}/{dataset}/cursors"): rule(
        FOLLOW, status=400, code="invalid-name", json={"consumer": "no such name!"}
    ),
    ("GET", "/{account}/{dataset}/cursors"): rule(FOLLOW),
    ("GET", "/{account}/{dataset}/cursors/{consumer}"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/claim"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}, json={}
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/fetch"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}, json=FENCE
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/ack"): rule(
        FOLLOW, status=400, code="invalid-request", path={"consumer": "none"}, json={**FENCE, "position": "nowhere"}
    ),
    ("DELETE", "/{account}/{dataset}/cursors/{consumer}"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}
    ),
    ("GET", "/{account}/{dataset}/variables"): rule(WRITE),
    ("PUT", "/{account}/{dataset}/variables/{name}"): rule(
        WRITE, status=400, code="invalid-request", path={"name": "1"}, json={"value": "x"}
    ),
    ("DELETE", "/{account}/{dataset}/variables/{name}"): rule(
        WRITE, status=404, code="not-found", path={"name": "NONE"}
    ),
    ("GET", "/{account}/{dataset}/collaborators"): rule(SHARE),
    ("PUT", "/{account}/{dataset}/collaborators/{name}"): rule(
        SHARE, status=412, code="changed", path={"name": "spare"}, headers=CHANGED, json={"role": "reader"}
    ),
    # Anyone who may read it may give their own role back; taking another's takes the right to share.
    ("DELETE", "/{account}/{dataset}/collaborators/{name}"): rule(
        *(READ, OnDataset(Action.SHARE, is_declared=False)),
        status=412,
        code="changed",
        path={"name": "spare"},
        headers=CHANGED,
    ),
    ("GET", "/{account}/{dataset}/visibility"): rule(READ),
    ("PUT", "/{account}/{dataset}/visibility"): rule(
        SHARE, status=400, code="invalid-request", json={"visibility": "secret"}
    ),
    **PAGE_RULES,
}
"""By method and path template. A route without an entry fails `test_matrix`."""

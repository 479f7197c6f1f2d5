"""What each page needs: the console's part of the table `rules.RULES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from odfabric.domain.people.access import Action
from tests.services.api.needs import (
    ADMIN,
    ANY_HASH,
    ANY_ID,
    ANYBODY,
    EMPTY_FILE,
    FOLLOW,
    FORM,
    INVALID,
    MANAGE,
    MANAGE_OWN,
    MEMBER,
    MISSING,
    NAME,
    PUSH,
    READ,
    READER,
    SHARE,
    SIGNED_IN,
    STALE,
    WRITE,
    OnDataset,
    Rule,
    form,
    manifest_of,
    owner_in,
    rule,
)
from tests.services.api.people import PASSWORD
from tests.usecases.manifests import ROOT

_ONE: Mapping[str, Any] = {"status": 404, "code": "not-found", "path": {"subscription_id": ANY_ID}}
_DELIVERY: Mapping[str, Any] = {**_ONE, "path": dict.fromkeys(("subscription_id", "delivery_id"), ANY_ID)}

WEBHOOK_PAGES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("GET", "", {}),
    ("POST", "", {"status": 400, "code": "invalid-request", **form(url="https://a.example/x", secret="weak")}),
    ("GET", "/{subscription_id}", _ONE),
    ("POST", "/{subscription_id}/state", {**_ONE, **form(state="paused")}),
    ("POST", "/{subscription_id}/secret", {**_ONE, **form(secret="")}),
    ("POST", "/{subscription_id}/test", {**_ONE, **form()}),
    ("POST", "/{subscription_id}/replay", {**_ONE, **form(which="failed")}),
    ("POST", "/{subscription_id}/remove", {**_ONE, **form()}),
    ("GET", "/{subscription_id}/{delivery_id}", _DELIVERY),
    ("POST", "/{subscription_id}/{delivery_id}/replay", {**_DELIVERY, **form()}),
)
"""The pages of webhooks, which are the same for a dataset, an account and the node."""

PAGE_RULES: Mapping[tuple[str, str], Rule] = {
    # Pages.
    ("GET", "/-/assets/{name}"): Rule(needs=(), allowed=((404, "not-found"),), path={"name": "none.js"}),
    ("GET", "/-/open"): Rule(needs=(), allowed=(MISSING,)),
    ("GET", "/"): rule(ANYBODY),
    ("GET", "/-/datasets.atom"): rule(ANYBODY),
    ("GET", "/-/sql"): rule(ANYBODY),
    ("POST", "/-/sql"): rule(ANYBODY, status=400, code="invalid-query", **form(query="select nothing")),
    ("POST", "/-/sql/saved"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=400, code="invalid-request", **form(name="x", query="")
    ),
    ("POST", "/-/sql/saved/{query_id}"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"query_id": ANY_ID}, **form(action="delete")
    ),
    ("GET", "/{account}"): Rule(needs=(ANYBODY,), allowed=((200, ""), MISSING)),
    ("GET", "/{account}/{dataset}"): rule(READ),
    ("GET", "/{account}/{dataset}/-/rows"): rule(READ),
    ("GET", "/{account}/{dataset}/-/why"): rule(READ, params={"offset": "0"}),
    ("GET", "/{account}/{dataset}/-/profile"): rule(READ),
    ("GET", "/{account}/{dataset}/-/history"): rule(READ),
    ("GET", "/{account}/{dataset}/-/blocks/{block}"): rule(
        READ, status=404, code="not-found", path={"block": ANY_HASH}
    ),
    ("POST", "/{account}/{dataset}/-/blocks/{block}/verify"): rule(
        FOLLOW, status=404, code="not-found", path={"block": ANY_HASH}, **form()
    ),
    ("GET", "/{account}/{dataset}/-/compare"): rule(
        READ, status=404, code="not-found", params={"older": ANY_HASH, "newer": ANY_HASH}
    ),
    ("GET", "/{account}/{dataset}/-/lineage"): rule(READ),
    ("GET", "/{account}/{dataset}/-/variables"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/variables"): rule(
        WRITE, status=400, code="invalid-request", **form(name="1", value="x")
    ),
    ("POST", "/{account}/{dataset}/-/variables/{name}/remove"): rule(
        WRITE, status=404, code="not-found", path={"name": "NONE"}, headers=FORM
    ),
    ("GET", "/{account}/{dataset}/-/copies"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/copies"): rule(
        WRITE, status=400, code="unsupported-protocol", **form(to="ipfs://x")
    ),
    ("POST", "/{account}/{dataset}/-/copies/forget"): rule(
        WRITE, status=404, code="not-found", **form(target="nowhere")
    ),
    # Pages of flows.
    ("GET", "/-/flows"): rule(SIGNED_IN),
    ("GET", "/{account}/{dataset}/-/flows"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/flows/{kind}"): rule(
        WRITE, status=400, code="invalid-request", path={"kind": "poll"}, **form(trigger="every", every="1s")
    ),
    **{
        ("POST", f"/{{account}}/{{dataset}}/-/flows/{{kind}}/{verb}"): rule(
            WRITE, status=404, code="not-found", path={"kind": "verify"}, headers=FORM
        )
        for verb in ("pause", "resume", "run", "remove")
    },
    ("POST", "/-/runs/{run_id}/cancel"): rule(
        SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}, headers=FORM
    ),
    # Pages of one's own account and of organisations.
    ("POST", "/-/sign-out"): rule(ANYBODY, status=303, headers=FORM),
    ("GET", "/-/account"): rule(SIGNED_IN),
    ("POST", "/-/account"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(STALE,), body="version=999", headers=FORM),
    ("POST", "/-/account/password"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN),
        allowed=(INVALID, (403, "access-denied")),
        body=f"old={PASSWORD.replace(' ', '+')}&new=short",
        headers=FORM,
    ),
    ("GET", "/-/account/sessions"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/-/account/sessions"): Rule(needs=(SIGNED_IN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM),
    ("GET", "/-/account/tokens"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/-/account/tokens"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN), allowed=(INVALID,), body="name=without+scopes", headers=FORM
    ),
    ("POST", "/-/account/tokens/revoke"): Rule(
        needs=(SIGNED_IN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM
    ),
    ("GET", "/-/account/organisations"): rule(SIGNED_IN),
    ("POST", "/-/account/organisations"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN), allowed=(NAME, INVALID), body="name=jobs", headers=FORM
    ),
    ("GET", "/-/orgs/{name}"): rule(SIGNED_IN, MEMBER, READER, path={"name": owner_in}),
    ("POST", "/-/orgs/{name}"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE), allowed=(STALE,), path={"name": owner_in}, body="version=999", headers=FORM
    ),
    ("POST", "/-/orgs/{name}/members"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE),
        allowed=(STALE,),
        path={"name": owner_in},
        body="member=spare&role=admin&version=9",
        headers=FORM,
    ),
    ("POST", "/-/orgs/{name}/delete"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE),
        allowed=((409, "in-use"),),
        path={"name": owner_in},
        body=lambda scene: f"confirm={scene.account}",
        headers=FORM,
    ),
    ("GET", "/{account}/{dataset}/-/sharing"): rule(SHARE),
    ("POST", "/{account}/{dataset}/-/sharing/visibility"): Rule(
        needs=(SHARE,), allowed=(INVALID,), body="visibility=secret", headers=FORM
    ),
    ("POST", "/{account}/{dataset}/-/sharing/collaborators"): Rule(
        needs=(SHARE,), allowed=(STALE,), body="name=spare&role=reader&version=9", headers=FORM
    ),
    # Pages of the node's admins.
    ("GET", "/-/admin"): rule(ADMIN),
    ("GET", "/-/admin/settings"): rule(ADMIN),
    ("GET", "/-/admin/storage"): rule(ADMIN),
    ("GET", "/-/admin/rights"): rule(ADMIN, params={"dataset": lambda scene: scene.shown}),
    ("GET", "/-/admin/tokens"): rule(ADMIN),
    ("POST", "/-/admin/tokens"): Rule(needs=(ADMIN,), allowed=(INVALID,), body="token=nonsense", headers=FORM),
    ("POST", "/-/admin/tokens/revoke"): Rule(needs=(ADMIN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM),
    ("GET", "/-/admin/repositories"): rule(ADMIN),
    ("POST", "/-/admin/repositories"): rule(
        ADMIN, status=400, code="unsupported-protocol", **form(name="x", url="ipfs://x")
    ),
    ("POST", "/-/admin/repositories/{name}/remove"): rule(
        ADMIN, status=404, code="not-found", path={"name": "none"}, headers=FORM
    ),
    ("GET", "/-/admin/audit"): rule(ADMIN),
    ("GET", "/-/admin/audit.csv"): rule(ADMIN, params={"target": "nothing"}),
    ("GET", "/-/admin/accounts"): rule(ADMIN),
    ("POST", "/-/admin/invitations"): Rule(needs=(ADMIN,), allowed=(NAME,), body="name=jobs", headers=FORM),
    ("POST", "/-/admin/invitations/revoke"): Rule(
        needs=(ADMIN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM
    ),
    ("GET", "/-/admin/accounts/{name}"): rule(ADMIN, path={"name": "spare"}),
    **{
        ("POST", f"/-/admin/accounts/{{name}}/{what}"): Rule(
            needs=(ADMIN,), allowed=allowed, path={"name": name}, body=body, headers=FORM
        )
        for what, name, body, allowed in (
            ("standing", "spare", "change=suspend&version=999", (STALE,)),
            ("limits", "spare", "version=999", (STALE,)),
            ("reset", "acme", "", (INVALID,)),
            ("delete", "spare", "confirm=another", (INVALID,)),
        )
    },
    ("GET", "/-/new"): rule(SIGNED_IN),
    ("GET", "/-/new/manifest"): rule(SIGNED_IN),
    ("GET", "/-/new/file"): rule(SIGNED_IN),
    ("POST", "/-/new/file"): rule(SIGNED_IN, status=400, code="invalid-request", **EMPTY_FILE),
    ("POST", "/-/new/file/url"): rule(SIGNED_IN, status=400, code="invalid-request", **form(url="ftp://a.example")),
    ("GET", "/-/new/file/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("POST", "/-/new/file/{job_id}"): rule(
        SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}, **form(action="discard")
    ),
    ("GET", "/-/new/sql"): rule(SIGNED_IN),
    ("POST", "/-/new/sql"): rule(SIGNED_IN, status=400, code="invalid-request", **form(name="x", sql="SELECT 1")),
    # Anyone who may not make it reads so on the form.
    ("POST", "/-/new/manifest"): Rule(
        needs=(SIGNED_IN,),
        allowed=((409, "already-exists"), (403, "access-denied")),
        body=lambda scene: urlencode({"manifest": manifest_of(ROOT)(scene)}),
        headers=FORM,
    ),
    ("GET", "/-/jobs"): rule(SIGNED_IN),
    ("GET", "/-/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("POST", "/-/jobs/{job_id}/cancel"): rule(
        SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}, **form()
    ),
    ("GET", "/{account}/{dataset}/-/jobs"): rule(FOLLOW),
    ("POST", "/{account}/{dataset}/-/pull"): rule(WRITE, status=303, **form()),
    ("POST", "/{account}/{dataset}/-/verify"): rule(FOLLOW, status=303, **form()),
    ("GET", "/{account}/{dataset}/-/push"): rule(PUSH),
    ("POST", "/{account}/{dataset}/-/push"): rule(
        PUSH, status=415, code="unsupported-media-type", **form(rows="x", media_type="image/png")
    ),
    ("POST", "/{account}/{dataset}/-/push/try"): rule(PUSH, status=400, code="invalid-request", **EMPTY_FILE),
    ("POST", "/{account}/{dataset}/-/push/tried"): rule(PUSH, status=404, code="not-found", **form(job=ANY_ID)),
    **{
        (method, f"{base}{path}"): rule(*needs, **given)
        for base, needs in (
            ("/{account}/{dataset}/-/subscriptions", (FOLLOW,)),
            ("/-/accounts/{account}/webhooks", (SIGNED_IN, MANAGE)),
            ("/-/admin/webhooks", (ADMIN,)),
        )
        for method, path, given in WEBHOOK_PAGES
    },
    ("GET", "/{account}/{dataset}/-/settings"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/settings"): rule(
        WRITE, status=422, code="invalid-manifest", **form(manifest="kind: Other")
    ),
    ("POST", "/{account}/{dataset}/-/info"): rule(
        WRITE, status=400, code="invalid-request", **form(license_short="X", license_url="none")
    ),
    ("POST", "/{account}/{dataset}/-/name"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-name", **form(name="no such name!")
    ),
    ("POST", "/{account}/{dataset}/-/reset"): rule(
        OnDataset(Action.REWRITE), status=400, code="invalid-request", **form(confirm="another/name")
    ),
    ("POST", "/{account}/{dataset}/-/compact"): rule(
        OnDataset(Action.REWRITE), status=400, code="invalid-request", **form(confirm="another/name")
    ),
    ("POST", "/{account}/{dataset}/-/delete"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-request", **form(confirm="another/name")
    ),
}

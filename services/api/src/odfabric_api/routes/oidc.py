"""Signing in by an OpenID Connect provider: out to it, and back with its word.

Owns the cookie that ties the way back to the browser that went out. Each provider has an address of its own to come back to, so that the
answer of one is never taken for another's. Not here: the protocol (`ports.people.identity_provider`), whose account it is (`usecases.people`).
"""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from odfabric.errors import InvalidRequest, NotFound, OdfError, Unauthenticated
from odfabric.formats.secrets.pending_sign_in import seal, unseal
from odfabric.model.people.account import Account, ExternalIdentity
from odfabric.model.people.sign_in import VerifiedIdentity
from odfabric.usecases.people.sign_in import account_of_identity, link_identity, open_session
from odfabric.usecases.people.tokens import IssuedToken
from odfabric_api.auth import node_of, page_visitor
from odfabric_api.problems import problem_status
from odfabric_api.routes.sign_in import START_PAGE, own_page, providers_of, with_session
from odfabric_api.sessions import csrf_token, is_secure, public_origin
from odfabric_api.web.sign_in_pages import link_page, login_page, message_page

router = APIRouter(tags=["sign in"])

COOKIE = "odf-sign-in"
LINK = "link"
"""What the context begins with when somebody who is signed in adds an identity to their account."""

ProviderName = Annotated[str, Path(description="Name of the provider, as the operator has set it", max_length=100)]


@router.get("/oidc/{provider}/start", include_in_schema=False)
async def start(
    request: Request,
    provider: ProviderName,
    then: Annotated[str, Query(max_length=500)] = START_PAGE,
    link: Annotated[bool, Query(description="Add the identity to the account that is signed in")] = False,
    csrf: Annotated[str, Query(description="CSRF token of the session, with `link`", max_length=100)] = "",
) -> Response:
    """Send the browser to the provider, once its person agreed to link an identity.

    They agree to it on the node's own page.
    """
    node, path = node_of(request), own_page(then)

    def begin() -> Response:
        context = path
        if link:
            visitor, session = page_visitor(request)
            if visitor.account is None or session is None:
                raise Unauthenticated("sign in first, then link the identity")
            if not hmac.compare_digest(csrf.encode(), csrf_token(session).encode()):
                return _link_page(request, provider, visitor.account, session)
            context = f"{LINK}:{visitor.account.id}"
        back = f"{public_origin(request)}/oidc/{provider}/callback"
        url, pending = node.ports.identities.begin(provider, back, context=context)
        answer = RedirectResponse(url, status_code=303)
        answer.set_cookie(
            COOKIE,
            seal(pending, node.sign_in_secret),
            max_age=int(node.settings.oidc_sign_in_s_max),
            path=f"/oidc/{provider}",
            secure=is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return answer

    try:
        return await to_thread.run_sync(begin)
    except OdfError as error:
        return _failed(request, error, then=path)


@router.get("/oidc/{provider}/callback", include_in_schema=False)
async def come_back(request: Request, provider: ProviderName) -> Response:
    """The browser comes back: its person is signed in, or their identity linked."""
    parameters = request.query_params.multi_items()

    def finish() -> Response:
        node = node_of(request)
        pending = unseal(request.cookies.get(COOKIE, ""), node.sign_in_secret)
        if pending.provider != provider or len(dict(parameters)) != len(parameters):
            raise InvalidRequest("the provider's answer does not belong to this sign-in", hint="begin again")
        identity = node.ports.identities.finish(pending, dict(parameters))
        if pending.context.startswith(f"{LINK}:"):
            return _linked(request, identity, account=pending.context.removeprefix(f"{LINK}:"))
        _, issued = _signed_in(request, provider, identity)
        return with_session(request, RedirectResponse(own_page(pending.context), status_code=303), issued)

    try:
        answer = await to_thread.run_sync(finish)
    except OdfError as error:
        answer = _failed(request, error, then=START_PAGE)
    answer.delete_cookie(COOKIE, path=f"/oidc/{provider}", secure=is_secure(request), httponly=True, samesite="lax")
    return answer


def _link_page(request: Request, provider: str, account: Account, session: str) -> Response:
    label = next((label for name, label in providers_of(request) if name == provider), None)
    if label is None:
        raise NotFound("provider", provider)
    href = f"{request.url.path}?{urlencode({'link': 'true', 'csrf': csrf_token(session)})}"
    return link_page(request, label=label, account=str(account.name), href=href)


def _signed_in(request: Request, provider: str, identity: VerifiedIdentity) -> tuple[Account, IssuedToken]:
    node, address = node_of(request), request.client.host if request.client else None
    may_sign_up = any(each.allow_sign_up for each in node.ports.identities.providers() if each.name == provider)
    account = account_of_identity(
        _external(identity),
        wished_name=identity.preferred_username,
        display_name=identity.name,
        email=identity.email if identity.email_verified else None,
        may_sign_up=may_sign_up,
        address=address,
        ports=node.people,
    )
    device = request.headers.get("user-agent", "")
    return account, open_session(account, how=provider, device=device, address=address, ports=node.people)


def _linked(request: Request, identity: VerifiedIdentity, *, account: str) -> Response:
    """Raises InvalidRequest if somebody else signed in meanwhile.

    Raises AlreadyExists for an identity that is another's.
    """
    visitor, _ = page_visitor(request)
    if visitor.account is None or str(visitor.account.id) != account:
        raise InvalidRequest("somebody else is signed in by now", hint="begin again")
    link_identity(_external(identity), subject=visitor, ports=node_of(request).people)
    text = f"You can sign in as {visitor.account.name} this way from now on."
    return message_page(request, "Linked", text, following=("/-/account", "Your account"))


def _external(identity: VerifiedIdentity) -> ExternalIdentity:
    return ExternalIdentity(issuer=identity.issuer, subject=identity.subject)


def _failed(request: Request, error: OdfError, *, then: str) -> Response:
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    return login_page(request, then=then, problem=text, providers=providers_of(request), status=problem_status(error))

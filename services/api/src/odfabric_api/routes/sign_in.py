"""Routes and plain pages of browser sessions.

By the pages a person signs in, accepts an invitation, approves a device.
"""

from __future__ import annotations

import hmac
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse

from odfabric.errors import AccessDenied, NotFound, OdfError
from odfabric.model.people.account import Account
from odfabric.usecases.people.devices import decide_device, look_at_device, shown_user_code
from odfabric.usecases.people.invitations import accept, look_at
from odfabric.usecases.people.sign_in import check_password, open_session
from odfabric.usecases.people.tokens import IssuedToken, revoke_token
from odfabric.usecases.people.values import managed_value
from odfabric_api.auth import Member, Subject, node_of, page_visitor
from odfabric_api.bodies.forms import read_form
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_schemas import SessionView
from odfabric_api.bodies.schemas import answers
from odfabric_api.problems import problem_status
from odfabric_api.sessions import close_cookie, cookie_of, csrf_token, open_cookie, public_origin
from odfabric_api.web.sign_in_pages import device_page, login_page, message_page, setup_page

router = APIRouter(tags=["sign in"])

START_PAGE = "/"


class SessionBody(JsonModel):
    """Who signs in."""

    login: str = Field(max_length=100)
    password: str = Field(max_length=1024)


@router.post(
    "/session",
    summary="Sign a browser in",
    responses=answers(SessionView, text="The session, of which the cookie is the key"),
    openapi_extra=json_body(SessionBody, required=True),
)
async def post_session(request: Request) -> Response:
    """Requests that change something then carry `csrfToken` in X-CSRF-Token."""
    check_same_origin(request)
    body = await read_json(request, SessionBody, bytes_max=node_of(request).settings.json_body_bytes_max)
    account, issued = await to_thread.run_sync(lambda: _signed_in(request, body.login, body.password))
    answer = JsonAnswer({"account": managed_value(account), "csrfToken": csrf_token(issued.text)})
    return with_session(request, answer, issued)


@router.get("/session", summary="The browser's session", responses=answers(SessionView, text="Who is signed in"))
def get_session(request: Request, caller: Member) -> Response:
    """404 for a token that is no session."""
    session = cookie_of(request)
    if session is None or caller.account is None:
        raise NotFound("session", "of this request")
    return JsonAnswer({"account": managed_value(caller.account), "csrfToken": csrf_token(session)})


@router.delete("/session", status_code=204, summary="Sign out", responses=answers(None, status=204))
def delete_session(request: Request, caller: Member) -> Response:
    """The session ends, or the token by which it was asked."""
    if caller.token is not None:
        revoke_token(caller.token, subject=caller, ports=node_of(request).people)
    answer = Response(status_code=204)
    close_cookie(request, answer)
    return answer


@router.get("/login", include_in_schema=False)
def get_login(request: Request, then: Annotated[str, Query(max_length=500)] = START_PAGE) -> HTMLResponse:
    """The page for name and password."""
    return login_page(request, then=own_page(then), providers=providers_of(request))


@router.post("/login", include_in_schema=False)
async def post_login(request: Request) -> Response:
    """What the page sends."""
    check_same_origin(request)
    form = await read_form(request, frozenset({"login", "password", "then"}))
    then = own_page(form.get("then", START_PAGE))
    try:
        name, password = form.get("login", ""), form.get("password", "")
        _, issued = await to_thread.run_sync(lambda: _signed_in(request, name, password))
        return with_session(request, RedirectResponse(then, status_code=303), issued)
    except OdfError as error:
        return login_page(
            request,
            then=then,
            login=form.get("login", "")[:100],
            problem=error.message,
            providers=providers_of(request),
            status=problem_status(error),
        )


@router.get("/setup", include_in_schema=False)
def get_setup(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """The page of an invitation."""
    return _setup_page(request, code, problem=None)


@router.post("/setup", include_in_schema=False)
async def post_setup(request: Request) -> Response:
    """What the page sends: the account is made, and its person signed in."""
    check_same_origin(request)
    form = await read_form(request, frozenset({"code", "name", "displayName", "password"}))
    return await to_thread.run_sync(lambda: _accepted(request, form))


@router.get("/device", include_in_schema=False)
def get_device(request: Request, code: Annotated[str | None, Query(max_length=50)] = None) -> Response:
    """The page on which a person approves a device; first they sign in."""
    visitor, session = page_visitor(request)
    if visitor.account is None or session is None:
        return login_page(request, then=f"/device?code={code}" if code else "/device", providers=providers_of(request))
    return _device_page(request, visitor, session, code)


@router.post("/device", include_in_schema=False)
async def post_device(request: Request) -> Response:
    """What the page sends."""
    form = await read_form(request, frozenset({"code", "csrf", "decision"}))
    return await to_thread.run_sync(lambda: _decided(request, form))


def providers_of(request: Request) -> list[tuple[str, str]]:
    """Names and labels of the identity providers by which people may sign in."""
    return [(each.name, each.label) for each in node_of(request).ports.identities.providers()]


def own_page(then: str) -> str:
    """A path of this node: nobody is sent elsewhere after signing in."""
    is_path = then.startswith("/") and not then.startswith(("//", "/\\")) and then.isprintable() and " " not in then
    return then if is_path else START_PAGE


def check_same_origin(request: Request) -> None:
    """Raises AccessDenied for a form of another page: cross-site sign-in.

    It would sign its visitor in as somebody else.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin != public_origin(request):
        raise AccessDenied(
            "the request does not come from a page of this node", hint="open the page here and try again"
        )


def with_session(request: Request, answer: Response, issued: IssuedToken) -> Response:
    """The answer with the cookie of a new session."""
    open_cookie(request, answer, issued.text, lifetime_s=node_of(request).settings.session_s)
    return answer


def _signed_in(request: Request, login: str, password: str) -> tuple[Account, IssuedToken]:
    people, address = node_of(request).people, _address(request)
    account = check_password(login, password, address=address, ports=people)
    device = request.headers.get("user-agent", "")
    return account, open_session(account, how="password", device=device, address=address, ports=people)


def _accepted(request: Request, form: dict[str, str]) -> Response:
    people, address, code = node_of(request).people, _address(request), form.get("code", "")
    try:
        account = accept(
            code,
            name=form.get("name") or None,
            display_name=form.get("displayName") or None,
            password=form.get("password", ""),
            address=address,
            ports=people,
        )
    except OdfError as error:
        return _setup_page(request, code, problem=error, typed=(form.get("name", ""), form.get("displayName", "")))
    request.state.subject = people.access.subject(account)
    device = request.headers.get("user-agent", "")
    issued = open_session(account, how="invitation", device=device, address=address, ports=people)
    page = message_page(
        request,
        "Welcome",
        f"You are signed in as {account.name}. At a command line: odf login {public_origin(request)}",
        following=(START_PAGE, "Go to the datasets"),
    )
    return with_session(request, page, issued)


def _setup_page(
    request: Request, code: str, *, problem: OdfError | None, typed: tuple[str, str] = ("", "")
) -> HTMLResponse:
    people = node_of(request).people
    try:
        invitation, account = look_at(code, ports=people)
    except NotFound as error:
        return message_page(request, "This link does not work", error.hint or error.message, status=404)
    name = str(account.name) if account is not None else str(invitation.name) if invitation.name else None
    text = None if problem is None else f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    return setup_page(
        request,
        code=code,
        name=name,
        is_new=account is None,
        characters_min=people.password_rules.characters_min,
        typed=typed,
        problem=text,
        status=200 if problem is None else problem_status(problem),
    )


def _device_page(
    request: Request, visitor: Subject, session: str, code: str | None, *, problem: str | None = None
) -> HTMLResponse:
    account = str(visitor.account.name) if visitor.account else ""
    user_code = client = None
    status = 200
    if code:
        try:
            found = look_at_device(code, subject=visitor, ports=node_of(request).people)
            user_code, client = shown_user_code(found.user_code), found.client
        except OdfError as error:
            problem, status = f"{error.message} ({error.hint})", problem_status(error)
    return device_page(
        request,
        user_code=user_code,
        client=client,
        account=account,
        csrf=csrf_token(session),
        problem=problem,
        status=status,
    )


def _decided(request: Request, form: dict[str, str]) -> Response:
    visitor, session = page_visitor(request)
    code, approve = form.get("code", ""), form.get("decision") == "approve"
    if session is None:
        return login_page(request, then=f"/device?code={code}", status=401)
    if not hmac.compare_digest(form.get("csrf", "").encode(), csrf_token(session).encode()):
        return message_page(request, "This page is too old", "Open it again and repeat.", status=403)
    try:
        decide_device(code, approve=approve, subject=visitor, ports=node_of(request).people)
    except OdfError as error:
        return _device_page(request, visitor, session, None, problem=f"{error.message} ({error.hint})")
    message = "You can close this page and go back to the command." if approve else "The device gets no access."
    return message_page(request, "Approved" if approve else "Denied", message)


def _address(request: Request) -> str | None:
    return request.client.host if request.client else None

"""Sign-in routes for clients of the reference.

Password login, device flow, validation of a token.

Source: docs/openapi.json; RFC 8628 for the device flow.
"""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from odfabric.errors import InvalidRequest, OdfError, Place, TokenExpired
from odfabric.usecases.people.devices import DeviceAnswer, redeem_device, shown_user_code, start_device
from odfabric.usecases.people.sign_in import check_password, open_client
from odfabric.usecases.people.tokens import IssuedToken
from odfabric_api.auth import Authentication, node_of
from odfabric_api.bodies.forms import FORM_MEDIA_TYPE, read_form
from odfabric_api.bodies.json_answer import JsonAnswer, json_bytes
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json, strict_json
from odfabric_api.bodies.people_schemas import DeviceStarted, DeviceToken, LoginAnswer, RuntimeConfig, TokenValid
from odfabric_api.bodies.schemas import answers
from odfabric_api.sessions import public_origin

router = APIRouter(tags=["sign in"])

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
CREDENTIALS_CHARACTERS_MAX = 4096
NAMED_CLIENT = "command line"


class LoginBody(JsonModel):
    """`loginCredentialsJson` is the JSON text of `{login, password}`."""

    login_method: Annotated[str, Field(alias="loginMethod", max_length=50)]
    login_credentials_json: Annotated[str, Field(alias="loginCredentialsJson", max_length=CREDENTIALS_CHARACTERS_MAX)]


def _form_body(*fields: str) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"requestBody": {"required": True, "content": {FORM_MEDIA_TYPE: {"schema": schema}}}}


@router.post(
    "/platform/login",
    summary="Sign in with a password",
    responses=answers(LoginAnswer, text="An access token"),
    openapi_extra=json_body(LoginBody, required=True),
)
async def login(request: Request) -> Response:
    """A token that expires as a session does.

    A wrong password and an unknown account are answered alike.
    """
    node = node_of(request)
    body = await read_json(request, LoginBody, bytes_max=node.settings.json_body_bytes_max)
    if body.login_method != "password":
        raise InvalidRequest(
            f"unknown login method {body.login_method!r}", place=Place(field="loginMethod"), hint="`password`"
        )
    match strict_json(body.login_credentials_json.encode()):
        case {"login": str(name), "password": str(password)}:
            pass
        case _:
            raise InvalidRequest("the credentials lack login or password", place=Place(field="loginCredentialsJson"))
    address = request.client.host if request.client else None

    def sign_in() -> IssuedToken:
        account = check_password(name, password, address=address, ports=node.people)
        return open_client(account, how="password", client=NAMED_CLIENT, address=address, ports=node.people)

    return JsonAnswer({"accessToken": (await to_thread.run_sync(sign_in)).text})


@router.post(
    "/platform/token/device/authorization",
    summary="Begin to sign a device in",
    responses=answers(DeviceStarted, text="The codes of the device and of its person"),
    openapi_extra=_form_body("client_id"),
)
async def start(request: Request) -> Response:
    """RFC 8628: the person opens the address and confirms the code."""
    node = node_of(request)
    form = await read_form(request, frozenset({"client_id", "scope"}))
    client = form.get("client_id", "").strip() or "a device"
    if not client.isprintable():
        raise InvalidRequest("the client's name is not printable", place=Place(field="client_id"))
    started = await to_thread.run_sync(lambda: start_device(client, scopes=None, ports=node.people))
    shown, origin = shown_user_code(started.authorisation.user_code), public_origin(request)
    value = {
        "device_code": started.device_code,
        "user_code": shown,
        "verification_uri": f"{origin}/device",
        "verification_uri_complete": f"{origin}/device?code={shown}",
        "interval": started.authorisation.interval_s,
        "expires_in": int(node.settings.device_s),
    }
    return JsonAnswer(value)


@router.post(
    "/platform/token/device",
    summary="Ask whether a device has been approved",
    responses=answers(DeviceToken, text="The access token of the device"),
    openapi_extra=_form_body("client_id", "device_code", "grant_type"),
)
async def redeem(request: Request) -> Response:
    """400 with `error` and `message` until somebody has approved it.

    `authorization_pending`, `slow_down`, `access_denied` ...
    """
    node = node_of(request)
    form = await read_form(request, frozenset({"client_id", "device_code", "grant_type"}))
    if form.get("grant_type") != GRANT_TYPE:
        return _device_problem("unsupported_grant_type")
    address = request.client.host if request.client else None
    device_code = form.get("device_code", "")
    answer = await to_thread.run_sync(lambda: redeem_device(device_code, address=address, ports=node.people))
    if isinstance(answer, DeviceAnswer):
        return _device_problem(answer.value)
    value = {
        "access_token": answer.text,
        "token_type": "Bearer",
        "expires_in": int(node.settings.session_s),
        "refresh_token": None,
        # The reference's clients read this spelling of `scope`.
        "score": None,
    }
    return JsonAnswer(value)


@router.get(
    "/platform/token/validate",
    summary="Whether a token counts",
    responses=answers(TokenValid, text="It does"),
)
def validate(request: Request) -> Response:
    """200 if it does, 401 if it has expired, 400 if it is unknown or was withdrawn."""
    authentication: Authentication = request.app.state.authentication
    try:
        subject = authentication.subject(request)
    except TokenExpired:
        raise
    except OdfError as error:
        raise InvalidRequest(error.message, hint=error.hint) from None
    if subject.account is None:
        raise InvalidRequest("no token was sent", hint="send `Authorization: Bearer TOKEN`")
    value = {"accountName": str(subject.account.name), "scopes": sorted(scope.value for scope in subject.scopes)}
    return JsonAnswer(value)


@router.get(
    "/assets/runtime-config.json",
    summary="Where the API is",
    responses=answers(RuntimeConfig, text="For commands that know the address of the web pages"),
)
def runtime_config(request: Request) -> Response:
    """API and pages have one address here."""
    return JsonAnswer({"apiServerHttpUrl": public_origin(request)})


def _device_problem(code: str) -> Response:
    document = {
        "type": f"https://odfabric.dev/problems/{code.replace('_', '-')}",
        "code": code.replace("_", "-"),
        "title": code.replace("_", " "),
        "status": 400,
        "detail": code,
        "message": code,
        "error": code,
    }
    return Response(json_bytes(document), status_code=400, media_type="application/problem+json")

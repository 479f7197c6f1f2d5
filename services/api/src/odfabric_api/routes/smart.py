"""WebSockets of the Smart Transfer Protocol: pull and push of a dataset.

Owns what is decided before a conversation begins: the version, who asks, their rights, and whether there is room. Invariant: cookies count for
nothing here, so that no page elsewhere can open a conversation in somebody's name. Not here: the conversation
(`usecases.transfer`). Source: RFC-007.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from odfabric.errors import InvalidRequest, LimitExceeded, OdfError, Place
from odfabric.formats.smart.close_reason import FAILED, TRY_AGAIN, close_reason
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import PROTOCOL_VERSION, VERSION_HEADER, InternalFailure, ObjectUrl, Phase
from odfabric_api.auth import Authentication, Subject, node_of
from odfabric_api.capacity import Capacity
from odfabric_api.conversations.socket_conversation import SocketConversation
from odfabric_api.conversations.transfer_places import TransferPlaces
from odfabric_api.problems import SECURITY_HEADERS, problem_response
from odfabric_api.refusals import audit_task
from odfabric_api.sessions import public_origin

router = APIRouter()

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Route:
    """What the audit of refusals wants to know of a route."""

    path: str


Hold = Callable[[SocketConversation], None]
"""Holds a conversation to its end."""


@router.websocket_route("/{account}/{dataset}/pull")
async def pull(socket: WebSocket) -> None:
    """A peer copies a dataset."""
    await _converse(socket, _allow_pull)


@router.websocket_route("/{account}/{dataset}/push")
async def push(socket: WebSocket) -> None:
    """A peer brings a dataset."""
    await _converse(socket, _allow_push)


def _allow_pull(request: Request) -> Hold:
    node, subject = node_of(request), _subject(request)
    account, dataset = request.path_params["account"], request.path_params["dataset"]
    entry = node.smart.may_pull(subject, account, dataset)

    def check() -> None:
        node.smart.may_pull(_subject(request), account, dataset)

    return partial(node.smart.serve_pull, entry=entry, place=_place(request), check=check)


def _allow_push(request: Request) -> Hold:
    node, subject = node_of(request), _subject(request)
    alias = node.smart.may_push(subject, request.path_params["account"], request.path_params["dataset"])
    node.smart.check_push(subject, alias)
    return partial(
        node.smart.accept_push,
        alias=alias,
        place=_place(request),
        subject_now=lambda: _subject(request),
        by=subject,
    )


async def _converse(socket: WebSocket, allow: Callable[[Request], Hold]) -> None:
    request = _as_request(socket)
    places: TransferPlaces = request.app.state.transfer_places
    with ExitStack() as held:
        try:
            _check_version(request)
            hold = await to_thread.run_sync(allow, request)
            caller: Subject = request.state.subject
            held.enter_context(places.share_of(caller))
            silence = held.enter_context(ExitStack())
            silence.enter_context(places.waiting(caller))
        except OdfError as error:
            await _refuse(socket, request, error)
            return
        await socket.accept()
        settings = node_of(request).settings
        talk = SocketConversation(socket, total_s_max=settings.smart_transfer_s_max)
        try:
            if not await talk.begins(seconds_max=settings.smart_first_message_s_max):
                await talk.close(FAILED, _reason(request, "the first message does not come"))
                return
            silence.close()
            held.enter_context(places.place(caller))
            capacity: Capacity = request.app.state.capacity
            await capacity.run_transfer(lambda: hold(talk))
        except LimitExceeded as error:
            await talk.close(TRY_AGAIN, _reason(request, f"no place now: try again in {error.retry_after_s} s"))
        except Exception:  # noqa: BLE001  # the close frame has reported it to the peer
            _log.exception("%s", request.url.path)
        finally:
            await talk.close()


def _reason(request: Request, message: str) -> str:
    """Why a conversation ends before anything was said, as the peer reads it."""
    phase = Phase.PULL_INITIAL if request.url.path.endswith("/pull") else Phase.PUSH_INITIAL
    return close_reason(InternalFailure(phase, message))


def _check_version(request: Request) -> None:
    if request.headers.get(VERSION_HEADER) != str(PROTOCOL_VERSION):
        raise InvalidRequest(
            "Incompatible client version",
            place=Place(field=VERSION_HEADER),
            hint=f"send {VERSION_HEADER}: {PROTOCOL_VERSION}",
        )


def _subject(request: Request) -> Subject:
    authentication: Authentication = request.app.state.authentication
    subject = authentication.subject(request)
    request.state.subject = subject
    return subject


def _as_request(socket: WebSocket) -> Request:
    """The request that asked for the upgrade, without its cookies."""
    scope = dict(socket.scope)
    scope["type"], scope["method"] = "http", "GET"
    scope["route"] = _Route("/{account}/{dataset}/" + socket.url.path.rpartition("/")[2])
    scope["scheme"] = "https" if scope["scheme"] == "wss" else "http"
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]
    return Request(scope)


async def _refuse(socket: WebSocket, request: Request, error: OdfError) -> None:
    """Answer instead of the upgrade."""
    answer: Response = problem_response(error)
    for name, value in SECURITY_HEADERS.items():
        answer.headers.setdefault(name, value)
    audit = audit_task(request, error)
    await socket.send_denial_response(answer)
    if audit is not None:
        await audit()


def _place(request: Request) -> Callable[[str, Multihash], ObjectUrl]:
    """Where the node itself reads and takes objects, with the caller's own token.

    Nobody else learns of the token.
    """
    public: str | None = node_of(request).settings.public_url
    origin = public.rstrip("/") if public is not None else public_origin(request)
    base = origin + request.url.path.rpartition("/")[0]
    headers = [(VERSION_HEADER, str(PROTOCOL_VERSION))]
    if (token := request.headers.get("authorization")) is not None:
        headers.append(("Authorization", token))
    return lambda area, name: ObjectUrl(url=f"{base}/{area}/{name}", headers=tuple(headers))

"""The application: routes, error answers, the edge.

Owns how the pieces of the service are put together around a node. Not here: the process (`__main__`), connections (`server`).
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cache

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.usecases.jobs.problem import problem_document
from odfabric.wiring import Node
from odfabric_api.auth import Authentication
from odfabric_api.bodies.answer_in_time import LongQuestions
from odfabric_api.bodies.json_body import wrong_member
from odfabric_api.capacity import Capacity
from odfabric_api.contract import check_contract, contracts_of
from odfabric_api.conversations.transfer_places import TransferPlaces
from odfabric_api.edge import EdgeLimits, EdgeMiddleware
from odfabric_api.head_watch import HeadWatch
from odfabric_api.openapi import ApiApplication
from odfabric_api.page_route import shows_page
from odfabric_api.problems import document_response, plain_problem, problem_response, status_of
from odfabric_api.refusals import audit_task
from odfabric_api.request_ids import RequestIds
from odfabric_api.routes import (
    accounts,
    admin,
    changes,
    collaborators,
    cursors,
    data,
    datasets,
    flows,
    jobs,
    oidc,
    platform,
    query,
    repositories,
    saved_queries,
    sign_in,
    signing_keys,
    smart,
    state,
    subscriptions,
    system,
    tokens,
    transfer,
    uploads,
    variables,
)
from odfabric_api.routes.past import keys, reports, rewriting
from odfabric_api.routes.provenance import why
from odfabric_api.shared_reads import SharedReads
from odfabric_api.timing import TimingMiddleware
from odfabric_api.web.assets import Assets
from odfabric_api.web.problem_pages import plain_problem_page, problem_page
from odfabric_api.web.routes import PAGES

_log = logging.getLogger(__name__)

# Fixed first parts come before `/{account}/{dataset}/...`; accounts cannot have those names.
ROUTERS = (
    *(
        module.router
        for module in (
            *(system, signing_keys, platform, sign_in, oidc, accounts, saved_queries, tokens, admin),
            # Before routes of datasets, whose account and dataset would fit their paths too.
            *(subscriptions, repositories, datasets, rewriting, reports, keys, jobs, flows, query),
            *(data, uploads, state, why, transfer, smart, cursors, changes, collaborators, variables),
        )
    ),
    # `-` is no name of an account or a dataset, so pages and names never meet.
    *PAGES,
)
# A page elsewhere may call the node with a token it was given: nothing here trusts cookies or the place of a caller.
CORS_METHODS = ("GET", "POST")
CORS_EXPOSED = ("ETag", "Link", "Location", "Retry-After", "Preference-Applied", "Content-Range", "X-Request-Id")


@cache
def application() -> ApiApplication:
    """Routes and error answers without a node: the source of the OpenAPI document.

    One for all applications of a process, which share its routes and its document: to make them takes most of a second.
    """
    app = _without_routes()
    for router in ROUTERS:
        app.include_router(router)
    return app


def _without_routes() -> ApiApplication:
    app = ApiApplication(
        title="odfabric",
        version="1",
        description="An Open Data Fabric node: publish, derive, serve and verify datasets.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(check_contract)],
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_exception_handler(OdfError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, _answer_http)
    return app


def create_app(node: Node, *, token: str) -> FastAPI:
    """The application that serves `node` to anyone who holds `token`.

    Raises InvalidRequest for a token that cannot be one.
    """
    app = _without_routes()
    app.router.routes[:] = application().router.routes
    app.openapi_schema = application().openapi()
    app.state.node = node
    app.state.authentication = Authentication(node, token)
    app.state.capacity = Capacity(node.settings)
    app.state.transfer_places = TransferPlaces(node.settings)
    app.state.long_questions = LongQuestions(node.settings.provenance_long_s)
    app.state.contracts = contracts_of(app.openapi())
    app.state.closing = threading.Event()
    app.state.shared_reads = SharedReads(node.settings.stream_kept_bytes_max)
    app.state.head_watch = HeadWatch(node, app.state.closing)
    app.state.assets = Assets.load()
    app.state.monotonic = time.monotonic
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=CORS_METHODS,
        allow_headers=["*"],
        expose_headers=CORS_EXPOSED,
    )
    app.add_middleware(EdgeMiddleware, limits=EdgeLimits.of(node.settings))
    app.add_middleware(TimingMiddleware, timings=node.timings)
    app.add_middleware(RequestIds)
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OdfError)
    if status_of(problem_document(error)) >= 500:
        _log.error("%s %s: %s", request.method, request.url.path, error)
    if shows_page(request):
        shown = problem_page(request, error)
        shown.background = audit_task(request, error)
        return shown
    answer = problem_response(error, has_condition="if-match" in request.headers)
    answer.background = audit_task(request, error)
    return answer


async def _answer_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [wrong_member(one["loc"][1:], str(one["type"]), str(one["msg"])) for one in error.errors()]
    field, message = found[0]
    if shows_page(request):
        return plain_problem_page(request, 400, InvalidRequest.code, f"{field}: {message}")
    document = problem_document(InvalidRequest(message, place=Place(field=field)))
    document["errors"] = [{"field": name, "message": text} for name, text in found]
    return document_response(document)


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        code = "not-found" if error.status_code == 404 else "http-error"
        return plain_problem(error.status_code, code, str(error.detail), error.headers)
    routes = (route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))
    path = request.url.path
    allowed = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    # What stands beside the routes knows its own methods.
    known = dict(error.headers or {}).get("Allow", "").split(", ")
    allow = ", ".join(sorted(allowed.union(filter(None, known))))
    return plain_problem(405, "method-not-allowed", f"{request.method} is not allowed here", {"allow": allow})

"""The application: routes, error answers, the edge.

Owns how the pieces of the service are put together around a node. Not here: the process (`__main__`).
"""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.usecases.problem import problem_document
from odfabric.wiring import Node
from odfabric_api.auth import Authentication
from odfabric_api.edge import EdgeLimits, EdgeMiddleware
from odfabric_api.problems import plain_problem, problem_response, status_of
from odfabric_api.routes import data, datasets, jobs, query, subscriptions, system, transfer

_log = logging.getLogger(__name__)


def create_app(node: Node, *, token: str) -> FastAPI:
    """The application that serves `node` to whoever holds `token`."""
    settings = node.settings
    app = FastAPI(
        title="odfabric",
        version="1",
        description="An Open Data Fabric node: publish, derive, serve and verify datasets.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.node = node
    app.state.authentication = Authentication(token)
    # Fixed first parts come before `/{account}/{dataset}/...`; accounts cannot have those names.
    for module in (system, datasets, jobs, query, data, transfer, subscriptions):
        app.include_router(module.router)
    app.add_exception_handler(OdfError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(Exception, _answer_bug)
    limits = EdgeLimits(
        header_bytes_max=settings.header_bytes_max,
        header_line_bytes_max=settings.header_line_bytes_max,
        body_bytes_per_s_min=settings.body_bytes_per_s_min,
        body_wait_s_max=settings.body_wait_s_max,
        requests_at_once_max=settings.requests_at_once_max,
    )
    app.add_middleware(EdgeMiddleware, limits=limits)
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OdfError)
    if status_of(problem_document(error)) >= 500:
        _log.error("%s %s: %s", request.method, request.url.path, error)
    return problem_response(error)


async def _answer_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    return plain_problem(400, "invalid-request", f"{field}: {first['msg']}")


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    return plain_problem(error.status_code, code, str(error.detail), error.headers)


async def _answer_bug(request: Request, error: Exception) -> Response:
    _log.exception("%s %s", request.method, request.url.path, exc_info=error)
    return plain_problem(500, "internal-error", "Internal error")

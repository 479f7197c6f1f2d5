"""Holds answers to the OpenAPI document: anything undocumented fails the test.

That is a status, media type or member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from odfabric_api.app import ROUTERS
from odfabric_api.problems import PROBLEM_MEDIA_TYPE

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def operation_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """The documented operation that serves a path, if there is one."""
    for route in ROUTES:
        if route.include_in_schema and method in (route.methods or ()) and route.path_regex.match(path):
            found: dict[str, Any] = document["paths"][route.path][method.lower()]
            return found
    return None


def check_documented(app: FastAPI) -> Callable[[httpx.Response], None]:
    """A response hook for a client."""
    document = app.openapi()

    def check(answer: httpx.Response) -> None:
        request = answer.request
        answer.read()
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "cache-control" in answer.headers
        if answer.status_code >= 400:
            assert answer.headers["content-type"] in (PROBLEM_MEDIA_TYPE, "application/json")
        method = "GET" if request.method == "HEAD" else request.method
        operation = operation_of(document, method, request.url.path)
        if operation is None or request.method == "HEAD":
            return
        documented = operation["responses"]
        expected = documented.get(str(answer.status_code), documented["default"] if answer.status_code >= 400 else None)
        assert expected is not None, f"{method} {request.url.path}: {answer.status_code} is not documented"
        content = expected.get("content", {})
        if not content:
            assert answer.content == b""
            return
        media_type = answer.headers["content-type"].partition(";")[0]
        assert media_type in content, f"{method} {request.url.path}: {media_type} is not documented"
        if media_type.endswith("json"):
            schema = {**content[media_type]["schema"], "components": document["components"]}
            Draft202012Validator(schema).validate(answer.json())

    return check

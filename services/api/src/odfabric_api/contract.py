"""A route takes what the OpenAPI document says, nothing else.

Unknown query parameters and unannounced bodies are refused.

Owns the check of a request's shape against the document. Invariant: a parameter that is not documented has no silent meaning - a
misspelt `limt=5` or a member of a newer version is reported, not ignored. Not here: the values of parameters (FastAPI and the verbs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from odfabric.errors import InvalidRequest, Place, UnsupportedMediaType


@dataclass(frozen=True, slots=True)
class RouteContract:
    """Names of the query parameters; whether there may be a body."""

    parameters: frozenset[str]
    takes_body: bool


def contracts_of(document: Mapping[str, Any]) -> dict[tuple[str, str], RouteContract]:
    """Contracts by path template and method. HEAD is like GET."""
    found: dict[tuple[str, str], RouteContract] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = [entry["name"] for entry in operation.get("parameters", ()) if entry["in"] == "query"]
            contract = RouteContract(frozenset(names), "requestBody" in operation)
            found[path, method.upper()] = contract
            if method == "get":
                found[path, "HEAD"] = contract
    return found


async def check_contract(request: Request) -> None:
    """Raises InvalidRequest for a query parameter or body that the route lacks.

    It names the parameter that is unknown or was given twice.
    """
    contracts: dict[tuple[str, str], RouteContract] = request.app.state.contracts
    contract = contracts.get((request.scope["route"].path, request.method))
    if contract is None:
        return  # a page that is not part of the document
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in contract.parameters:
            known = ", ".join(sorted(contract.parameters)) or "none"
            raise InvalidRequest(
                f"unknown query parameter {name!r}", place=Place(field=name), hint=f"this route has: {known}"
            )
        if name in seen:
            raise InvalidRequest(f"query parameter {name!r} is given twice", place=Place(field=name))
        seen.add(name)
    headers = request.headers
    if not contract.takes_body and ("transfer-encoding" in headers or headers.get("content-length", "0") != "0"):
        raise InvalidRequest("this route takes no body", place=Place(field="body"))
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("bodies are read without content encoding", hint="send it uncompressed")


def check_media_type(request: Request, accepted: tuple[str, ...]) -> None:
    """Of a body that is text in UTF-8.

    Raises UnsupportedMediaType unless it is one of `accepted`, or nobody chose one.
    """
    text = request.headers.get("content-type")
    if text is None:
        return
    essence, *parameters = (part.strip().lower() for part in text.split(";"))
    if essence not in accepted:
        raise UnsupportedMediaType(f"Unsupported media type: {essence!r}", hint=f"send {' or '.join(accepted)}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType(f"Unsupported charset: {value!r}", hint="send UTF-8")

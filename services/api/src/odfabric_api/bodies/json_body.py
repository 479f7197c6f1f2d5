"""Strict JSON bodies.

UTF-8, no duplicate keys, no NaN, bounded depth, no unknown members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric_api.auth import RECHECK_S, look_again
from odfabric_api.contract import check_media_type

DEPTH_MAX = 100
JSON_MEDIA_TYPE = "application/json"

ModelT = TypeVar("ModelT", bound="JsonModel")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


class JsonModel(BaseModel):
    """A body: member names in camelCase, types exact, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def json_body(model: type[JsonModel], *, required: bool) -> dict[str, Any]:
    """What the OpenAPI document says about a body.

    The model itself is among its components.
    """
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {JSON_MEDIA_TYPE: {"schema": schema}}}}


async def read_body(request: Request, *, bytes_max: int, limit: str) -> bytes:
    """The whole body. Raises LimitExceeded, before reading if the length is announced.

    Who takes long to send it does not keep rights that were withdrawn meanwhile. Raises as `auth.look_again`.
    """
    announced = request.headers.get("content-length")
    if announced is not None and int(announced) > bytes_max:
        raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
    seconds: Callable[[], float] = request.app.state.monotonic
    body, began_at = bytearray(), seconds()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
    if seconds() - began_at >= RECHECK_S:
        await to_thread.run_sync(partial(look_again, request, unchanged=True))
    return bytes(body)


async def read_json(
    request: Request, model: type[ModelT], *, bytes_max: int, limit: str = "json_body_bytes_max"
) -> ModelT:
    """The body as a model; an empty body is an empty object.

    Raises InvalidRequest naming the member, UnsupportedMediaType.
    """
    check_media_type(request, (JSON_MEDIA_TYPE,))
    body = await read_body(request, bytes_max=bytes_max, limit=limit)
    # In a thread: a megabyte of brackets takes its time, and the event loop has others to serve.
    return await to_thread.run_sync(lambda: parse_model(strict_json(body) if body else {}, model))


def parse_model(value: object, model: type[ModelT]) -> ModelT:
    """A parsed value as a model. Raises InvalidRequest naming the first wrong member."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field, message = wrong_member(first["loc"], first["type"], first["msg"])
        raise InvalidRequest(message, place=Place(field=field)) from None


def wrong_member(location: Sequence[object], kind: str, message: str) -> tuple[str, str]:
    """Name of a wrong parameter or member, and what is wrong with it.

    `kind` and `message` are pydantic's.
    """
    field = ".".join(str(part) for part in location) or "body"
    match kind:
        case "missing":
            return field, f"`{field}` is required"
        case "extra_forbidden":
            return field, f"unknown member `{field}`"
        case "model_type":
            return field, "expected a JSON object"
        case _:
            return field, message


def strict_json(data: bytes) -> object:
    """Parse. Raises InvalidRequest with line and column."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("the body is not UTF-8", place=Place(field="body", column=error.start + 1)) from None
    _check_depth(text)
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise InvalidRequest("a text has half of a surrogate pair", place=Place(field="body")) from None
    except json.JSONDecodeError as error:
        place = Place(field="body", line=error.lineno, column=error.colno)
        raise InvalidRequest(f"not JSON: {error.msg}", place=place) from None
    except ValueError as error:
        # Integers with too many digits, duplicate members, NaN.
        raise InvalidRequest(str(error), place=Place(field="body")) from None


def _check_depth(text: str) -> None:
    """Bound the parser's recursion by counting brackets outside strings."""
    depth = 0
    for found in _TEXT_OR_BRACKET.finditer(text):
        match found[0]:
            case "[" | "{":
                depth += 1
                if depth > DEPTH_MAX:
                    raise InvalidRequest(f"JSON is nested deeper than {DEPTH_MAX}", place=Place(field="body"))
            case "]" | "}":
                depth -= 1
            case _:
                pass


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate member {key[:100]!r}")
        found[key] = value
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")

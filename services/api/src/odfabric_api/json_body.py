"""JSON bodies, read strictly: UTF-8, no duplicate keys, no NaN, bounded depth, no unknown members (security property S5.3)."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from odfabric.errors import InvalidRequest, LimitExceeded, Place

DEPTH_MAX = 100

ModelT = TypeVar("ModelT", bound="JsonModel")


class JsonModel(BaseModel):
    """A body: member names in camelCase, types exact, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


async def read_body(request: Request, *, bytes_max: int, limit: str) -> bytes:
    """The whole body. Raises LimitExceeded, before reading if the length is announced."""
    announced = request.headers.get("content-length")
    if announced is not None and int(announced) > bytes_max:
        raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise LimitExceeded("the body is too large", limit=limit, maximum=bytes_max)
    return bytes(body)


async def read_json(request: Request, model: type[ModelT], *, bytes_max: int) -> ModelT:
    """The body as a model; an empty body is an empty object. Raises InvalidRequest naming the member."""
    essence = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    body = await read_body(request, bytes_max=bytes_max, limit="json_body_bytes_max")
    if body and essence not in ("application/json", "application/problem+json"):
        raise InvalidRequest(f"expected application/json, not {essence}", place=Place(field="content-type"))
    return parse_model(strict_json(body) if body.strip() else {}, model)


def parse_model(value: object, model: type[ModelT]) -> ModelT:
    """A parsed value as a model. Raises InvalidRequest naming the first wrong member."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise InvalidRequest(f"{field}: {first['msg']}", place=Place(field=field)) from None


def strict_json(data: bytes) -> object:
    """Parse. Raises InvalidRequest with line and column."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("the body is not UTF-8", place=Place(field="body", column=error.start + 1)) from None
    _check_depth(text)
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        place = Place(field="body", line=error.lineno, column=error.colno)
        raise InvalidRequest(f"not JSON: {error.msg}", place=place) from None
    except ValueError as error:
        # Integers with too many digits, duplicate members, NaN.
        raise InvalidRequest(str(error), place=Place(field="body")) from None


def _check_depth(text: str) -> None:
    """Counts brackets outside strings, so that the parser's recursion is never at a stranger's mercy."""
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise InvalidRequest(f"JSON is nested deeper than {DEPTH_MAX}", place=Place(field="body"))
        elif character in "]}":
            depth -= 1


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate member {key!r}")
        found[key] = value
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")

"""Web forms, read strictly: UTF-8, bounded, each field once."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import Request

from odfabric.errors import InvalidRequest, Place
from odfabric_api.bodies.json_body import read_body
from odfabric_api.contract import check_media_type

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
FORM_BYTES_MAX = 16 * 1024
FIELDS_MAX = 20


async def read_form(
    request: Request, fields: frozenset[str], *, bytes_max: int = FORM_BYTES_MAX, fields_max: int = FIELDS_MAX
) -> dict[str, str]:
    """The fields that were sent, of those that the form has.

    Line breaks are those that were typed, not those of forms (CR LF).

    Raises InvalidRequest for an unknown or repeated field or a broken form, LimitExceeded, UnsupportedMediaType.
    """
    check_media_type(request, (FORM_MEDIA_TYPE,))
    body = await read_body(request, bytes_max=bytes_max, limit="form_bytes_max")
    try:
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=fields_max,
        )
    except ValueError:
        raise InvalidRequest("the body is no web form", place=Place(field="body")) from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in fields or name in found:
            what = "given twice" if name in found else "unknown"
            raise InvalidRequest(f"the field {name[:100]!r} is {what}", place=Place(field=name[:100]))
        found[name] = value.replace("\r\n", "\n")
    return found

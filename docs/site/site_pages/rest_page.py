"""The REST API as pages, from OpenAPI: routes by subject, and the schemas of their bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from site_pages.markup import code, paragraphs, plain, section, table
from site_pages.schema_tables import Schema, linker, meaning, members_table, type_text

METHODS = ("get", "post", "put", "patch", "delete")
LINK = linker("rest")


def rest_text(contract: Schema) -> str:
    """All routes, by tag."""
    by_tag: dict[str, list[tuple[str, str, Schema]]] = {}
    for method, path, operation in _operations(contract):
        by_tag.setdefault(operation.get("tags", ["other"])[0], []).append((method, path, operation))
    return "".join(
        section(2, tag[0].upper() + tag[1:], f"rest-tag-{_slug(tag)}", _overview(routes), *map(_route, routes))
        for tag, routes in sorted(by_tag.items())
    )


def schemas_text(contract: Schema) -> str:
    """All schemas, by name."""
    return "".join(
        section(2, name, f"rest-{name.lower()}", paragraphs(schema.get("description", "")), _schema(schema))
        for name, schema in sorted(contract["components"]["schemas"].items())
    )


def _operations(contract: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, item in contract["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def _overview(routes: list[tuple[str, str, Schema]]) -> str:
    rows = [
        (f"[{plain(operation['summary'])}](#{_target(operation)})", code(f"{method} {path}"))
        for method, path, operation in routes
    ]
    return table(("what", "route"), rows)


def _route(route: tuple[str, str, Schema]) -> str:
    method, path, operation = route
    return section(
        3,
        plain(operation["summary"]),
        _target(operation),
        f"```text\n{method} {path}\n```",
        paragraphs(operation.get("description", "")),
        "" if "security" in operation else "Needs no token.",
        _parameters(operation.get("parameters", [])),
        _body(operation.get("requestBody")),
        _answers(operation["responses"]),
    )


def _parameters(parameters: list[dict[str, Any]]) -> str:
    rows = []
    for parameter in parameters:
        name = code(parameter["name"])
        schema = {**parameter.get("schema", {}), "description": parameter.get("description", "")}
        rows.append(
            (
                f"**{name}**" if parameter.get("required") else name,
                parameter["in"],
                type_text(parameter.get("schema", {}), LINK),
                meaning(schema),
            )
        )
    return table(("parameter", "in", "type", "meaning"), rows)


def _body(body: Schema | None) -> str:
    if body is None:
        return ""
    said = "; ".join(
        f"{code(media)}: {_binary(content.get('schema', {}))}" for media, content in body.get("content", {}).items()
    )
    about = plain(body["description"]).rstrip(".") + ". " if body.get("description") else ""
    return f"Body: {about}{said}."


def _binary(schema: Schema) -> str:
    return "bytes" if schema.get("format") == "binary" else type_text(schema, LINK)


def _answers(responses: dict[str, Schema]) -> str:
    rows = []
    for status, response in responses.items():
        content = "; ".join(
            f"{code(media)}: {_binary(one['schema'])}" if "schema" in one else code(media)
            for media, one in response.get("content", {}).items()
        )
        rows.append((status if status != "default" else "any other", plain(response.get("description", "")), content))
    return table(("answer", "meaning", "body"), rows)


def _schema(schema: Schema) -> str:
    if "properties" in schema:
        return members_table(schema, LINK)
    return f"Type: {type_text(schema, LINK)}."


def _target(operation: Schema) -> str:
    return f"rest-route-{_slug(operation['operationId'])}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

"""The events of webhooks as a page, from AsyncAPI: what all of them have, then each with its data."""

from __future__ import annotations

from site_pages.markup import code, paragraphs, plain, section, table
from site_pages.schema_tables import Schema, linker, members_table

LINK = linker("event")


def events_text(contract: Schema) -> str:
    """The overview, the envelope, the headers and each event."""
    messages: dict[str, Schema] = contract["components"]["messages"]
    rows = [(f"[{code(name)}](#{_target(name)})", plain(message["title"])) for name, message in messages.items()]
    any_message = next(iter(messages.values()))
    envelope = {
        **any_message["payload"],
        "properties": {name: member for name, member in any_message["payload"]["properties"].items() if name != "data"},
    }
    envelope["properties"]["type"] = {"type": "string", "description": "One of the names above"}
    return (
        table(("event", "when"), rows)
        + "\n"
        + section(2, "What all events have", "event-envelope", members_table(envelope, LINK))
        + section(2, "Headers", "event-headers", members_table(any_message["headers"], LINK))
        + section(2, "Data of each event", "event-data", *map(_event, messages.values()))
    )


def _event(message: Schema) -> str:
    name = message["name"]
    data = message["payload"]["properties"]["data"]
    return section(
        3,
        name,
        _target(name),
        plain(message["title"]) + ".",
        paragraphs(message.get("description", "")),
        members_table(data, LINK),
    )


def _target(name: str) -> str:
    return "event-" + name.replace(".", "-")

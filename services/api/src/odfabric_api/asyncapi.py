"""The AsyncAPI 3 document of webhooks.

Made from the catalogue of events, committed, compared by a test.

`python -m odfabric_api.asyncapi docs/asyncapi.json` writes it. The node sends; a receiver that is generated from the document receives.
Not here: the events themselves (`odfabric.formats.webhooks.event_catalogue`).
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from odfabric.formats.webhooks.cloud_event import CONTENT_TYPE, EVENT_WITHHELD, SUBSCRIPTION_TESTED
from odfabric.formats.webhooks.event_catalogue import CATALOGUE, control_schemas, event_schema

_CHANNEL = "receiver"
_HEADERS = {
    "type": "object",
    "required": ["webhook-id", "webhook-timestamp", "webhook-signature"],
    "properties": {
        "webhook-id": {"type": "string", "description": "The id of the event"},
        "webhook-timestamp": {"type": "string", "description": "When this attempt was signed, in seconds since 1970"},
        "webhook-signature": {
            "type": "string",
            "description": "`v1,` and a base64 text; two of them while a secret is changed",
        },
    },
}
_CONTROL_SUMMARIES = {
    SUBSCRIPTION_TESTED: "Somebody tries the receiver; outside the sequence",
    EVENT_WITHHELD: "An event that the subscriber may not see any more: only its number",
}


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The document."""
    messages = _messages()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "odfabric webhooks",
            "version": "1",
            "description": "CloudEvents 1.0 in structured mode, signed by Standard Webhooks 1.0. Subscribe at "
            "`POST /{account}/{dataset}/subscriptions`, `POST /accounts/{account}/subscriptions` or `POST /subscriptions`.",
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": {
            _CHANNEL: {
                "address": None,
                "description": "The URL of a subscription",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
            }
        },
        "operations": {
            "sendEvent": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{_CHANNEL}"},
                "summary": "The node sends an event by HTTP POST until the receiver answers 2xx",
                "bindings": {"http": {"method": "POST", "bindingVersion": "0.3.0"}},
                "messages": [{"$ref": f"#/channels/{_CHANNEL}/messages/{name}"} for name in messages],
            }
        },
        "components": {"messages": messages},
    }


def _messages() -> dict[str, Any]:
    events = {
        each.name: _message(each.name, each.summary, event_schema(each), f"Seen by {each.seen_by}.")
        for each in CATALOGUE.values()
    }
    control = {
        name: _message(name, _CONTROL_SUMMARIES[name], schema, "Sent to every subscription.")
        for name, schema in control_schemas().items()
    }
    return events | control


def _message(name: str, summary: str, schema: Any, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": summary,
        "description": description,
        "contentType": CONTENT_TYPE,
        "headers": _HEADERS,
        "payload": schema,
    }


def document_text() -> str:
    """As it is committed: sorted, so that a difference shows a change of meaning only."""
    return json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the document to the given file."""
    Path(arguments[0]).write_text(document_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

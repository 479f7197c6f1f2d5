"""JSON in answers.

Invariant: it ends in a line end, so that a shell's prompt does not follow it on the same line.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


def json_bytes(value: object) -> bytes:
    """A value as answers hold it. Raises ValueError for a number that JSON has not."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class JsonAnswer(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:
        """See `json_bytes`."""
        return json_bytes(content)

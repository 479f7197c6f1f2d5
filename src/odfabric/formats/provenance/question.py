"""A question why records are there, as a JSON value."""

from __future__ import annotations

from odfabric.model.why_request import WhyRequest


def question_value(asked: WhyRequest) -> dict[str, object]:
    """The members of a question, as `POST /{account}/{dataset}/why` takes them."""
    return {
        "offsets": list(asked.offsets),
        "columns": list(asked.columns),
        "kinds": list(asked.kinds),
        "depth": asked.depth,
        "effort": asked.effort,
        "limit": asked.limit,
        "after": asked.after,
        "values": asked.values,
        "whole": asked.whole,
    }

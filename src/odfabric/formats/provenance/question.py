"""A question why records are there, as a JSON value."""

from __future__ import annotations

from odfabric.model.why_request import WhyRequest


def question_value(asked: WhyRequest) -> dict[str, object]:
    """The members of a question, as `POST /{account}/{dataset}/why` takes them."""
    wishes: dict[str, object] = {
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
    # Only where they are wished for: older nodes and jobs do not know them.
    if asked.peers:
        wishes["ask"] = "peers"
    if asked.hops:
        wishes["hops"] = asked.hops
    return wishes

"""What somebody asks of records, as use cases and their callers name it."""

from __future__ import annotations

from odfabric.model.why_request import ALL_KINDS, LIMIT_DEFAULT, WhyRequest

__all__ = ["ALL_KINDS", "LIMIT_DEFAULT", "WhyRequest"]

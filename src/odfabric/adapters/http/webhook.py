"""Delivery of webhooks: one POST, one answer.

Owns what an attempt is: every status is an answer, no redirect is followed, the beginning of the answer's body is kept as text. Not here:
signing (`formats.webhooks.webhook_signature`) and what follows from the answer (`domain.subscriptions.delivery`). Source: Standard Webhooks 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.retry_after import retry_after_s
from odfabric.adapters.http.url import parse_http_url
from odfabric.model.subscriptions.subscription import RESPONSE_BYTES_MAX, WebhookResponse


class HttpWebhookSender:
    """`ports.sources.egress.WebhookSender` over the guarded client."""

    def __init__(self, egress: Egress, *, timeout_s: float) -> None:
        """`timeout_s`: one attempt as a whole."""
        self._egress = egress
        self._timeout_s = timeout_s

    def check(self, url: str) -> None:
        """Refuse a URL that no attempt could reach."""
        self._egress.check(url)

    def target_uri(self, url: str) -> str:
        """See the port."""
        return str(parse_http_url(url))

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """One attempt."""
        answer = self._egress.post(
            url, headers=headers, body=body, total_s_max=self._timeout_s, start_bytes_max=RESPONSE_BYTES_MAX
        )
        # PostgreSQL stores no NUL in a text.
        excerpt = answer.start.decode("utf-8", "replace").replace("\0", "\ufffd")
        return WebhookResponse(answer.status, retry_after_s(answer), excerpt)

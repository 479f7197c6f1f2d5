"""Takes secrets out of a text, known ones and whatever looks like one.

Owns the patterns. Invariant: of a URL nothing is kept but scheme, host and port, because path and query of a webhook may be its secret. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

HIDDEN = "[hidden]"
SECRET_CHARACTERS_MIN = 4
"""Shorter texts are no secrets, and hiding them everywhere would leave nothing to read."""

_URL = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>\\]*)")
_TOKENS = (
    re.compile(r"\bodf_[0-9A-Za-z_]{20,}"),
    re.compile(r"\bka_[0-9A-Za-z]{40,}"),
    re.compile(r"\bwhsec_[0-9A-Za-z+/=]+"),
    re.compile(r"\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*"),  # a JSON web token
    re.compile(r"(?<=\bBearer )\S+", re.IGNORECASE),
    re.compile(r"(?<=\bBasic )[0-9A-Za-z+/=]{8,}", re.IGNORECASE),
    re.compile(r"(?<=\b(?:AKIA|ASIA))[0-9A-Z]{16}\b"),
)
_NAMED = re.compile(
    r"((?:password|passwd|secret|token|api[_-]?key|private[_-]?key)[\"']?\s*[=:]\s*)(?:([\"'])(?:(?!\2).)+\2|[^\s,;&\"'\[\]{}]+)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!File )\"[^\"]*\"|(?<!\w)'[^']*'|`[^`]*`")


class Redaction:
    """Hides secrets in texts.

    `secrets` are those that are known; what is hidden is not kept anywhere else.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= SECRET_CHARACTERS_MIN}
        known |= {form for secret in known for form in _forms(secret)}
        # A secret may be a part of another one.
        self._known = sorted(known, key=lambda secret: (-len(secret), secret))

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        text = _URL.sub(_host_alone, text)
        for pattern in _TOKENS:
            text = pattern.sub(HIDDEN, text)
        return _NAMED.sub(_name_alone, text)

    def log(self, text: str) -> str:
        """The same of a log, in which quoted texts may be values of rows."""
        return self.text(_QUOTED.sub("'…'", text))


def _forms(secret: str) -> Iterable[str]:
    """How a URL and JSON write it."""
    return (quote(secret, safe=""), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])


def _host_alone(url: re.Match[str]) -> str:
    scheme, rest = url[1], url[2]
    authority = re.split(r"[/?#]", rest.rpartition("@")[2], maxsplit=1)[0]
    return f"{scheme}://{authority}"


def _name_alone(named: re.Match[str]) -> str:
    mark = named[2] or ""
    return f"{named[1]}{mark}{HIDDEN}{mark}"

"""What a browser says it is, in the words of people."""

from __future__ import annotations

_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
# The more special first: a telephone names the system that its own was made from too.
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def device_name(user_agent: str) -> str:
    """`Firefox on Linux`; what says neither browser nor system stays as it is."""
    browser = _first(user_agent, _BROWSERS)
    system = _first(user_agent, _SYSTEMS)
    if browser is None:
        return user_agent
    return f"{browser} on {system}" if system else browser


def _first(text: str, known: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for sign, name in known if sign in text), None)

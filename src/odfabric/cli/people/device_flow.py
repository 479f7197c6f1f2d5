"""The device side of the device flow (RFC 8628): sign in by a browser.

Owns when the node is asked again. Invariant: no faster than the node allows, no longer than its code counts, and over a node that is away
for a while. Not here: what the person sees (`login_commands`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.backends.node_connection import NodeConnection
from odfabric.errors import AccessDenied, Determinate, Indeterminate, InvalidRequest, TokenExpired

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_S_DEFAULT = 5
INTERVAL_S_MAX = 60
SLOW_DOWN_S = 5
"""By how much the pause grows when the node finds it too short (RFC 8628, section 3.5)."""
EXPIRES_S_DEFAULT = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedDevice:
    """The node's answer: a secret code, and the address and code for the person."""

    device_code: str
    user_code: str
    address: str
    address_with_code: str
    interval_s: int
    expires_s: int


def start_device(connection: NodeConnection, *, client: str) -> StartedDevice:
    """Ask for a code.

    Raises JobFailed, Determinate, InvalidRequest for an address that is not a node's.
    """
    value = connection.json("POST", "/platform/token/device/authorization", data={"client_id": client})
    try:
        address = str(value["verification_uri"])
        return StartedDevice(
            device_code=str(value["device_code"]),
            user_code=str(value["user_code"]),
            address=address,
            address_with_code=str(value.get("verification_uri_complete") or address),
            interval_s=_seconds(value, "interval", INTERVAL_S_DEFAULT),
            expires_s=_seconds(value, "expires_in", EXPIRES_S_DEFAULT),
        )
    except (KeyError, ValueError):
        raise InvalidRequest(
            f"{connection.origin} does not answer as a node does", hint="look at the address"
        ) from None


def wait_for_approval(
    connection: NodeConnection,
    started: StartedDevice,
    *,
    client: str,
    sleep: Callable[[float], None],
    seconds: Callable[[], float],
) -> str:
    """The token, once its person has approved.

    `seconds` is a clock that only moves forward.

    Raises AccessDenied if they have not, TokenExpired if nobody came, JobFailed, Determinate for a node that stays away.
    """
    pause_s, end = started.interval_s, seconds() + started.expires_s
    form = {"client_id": client, "device_code": started.device_code, "grant_type": GRANT_TYPE}
    while True:
        sleep(pause_s)
        try:
            answer = connection.ask("POST", "/platform/token/device", data=form)
        except (Determinate, Indeterminate):
            if seconds() >= end:
                raise
            pause_s = min(2 * pause_s, INTERVAL_S_MAX)
            continue
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise JobFailed({"code": "http-error", "message": f"{answer.status_code} {answer.reason_phrase}"})
        if answer.is_success:
            return str(document["access_token"])
        pause_s += _extra_pause_s(document)
        if seconds() >= end:
            raise _expired()


def _extra_pause_s(document: Mapping[str, object]) -> int:
    """By how much the pause grows before the node is asked again.

    Raises what ends the waiting.
    """
    match document.get("error"):
        case "authorization_pending":
            return 0
        case "slow_down":
            return SLOW_DOWN_S
        case "access_denied":
            raise AccessDenied("the sign-in was denied", hint="`odf login` asks again")
        case "expired_token":
            raise _expired()
        case _:
            raise JobFailed(document)


def _expired() -> TokenExpired:
    return TokenExpired("nobody has approved the sign-in in time", hint="`odf login` asks again")


def _seconds(value: Mapping[str, object], member: str, default: int) -> int:
    return max(1, int(str(value.get(member, default))))

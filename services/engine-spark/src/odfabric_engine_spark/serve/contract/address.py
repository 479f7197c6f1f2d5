"""Where `engine.Engine` may be offered.

Owns that one decision. Anyone who calls is unknown, for the contract has no token; so it is offered only where settings say so,
and beyond the loopback only if they say that too. Loads no Spark: the keeper of a sandbox asks as well.
"""

from __future__ import annotations

import ipaddress

from odfabric.errors import InvalidRequest
from odfabric_engine_spark.spark.settings import EngineSettings


def check_contract_address(settings: EngineSettings) -> None:
    """Raises InvalidRequest for a public address that nobody has allowed.

    If strangers of other machines could call.
    """
    listen = settings.compat_listen
    if not settings.compat or settings.compat_beyond_loopback or listen.startswith("unix:") or _on_loopback(listen):
        return
    raise InvalidRequest(
        f"engine.Engine has no authentication and {listen} can be reached by other machines",
        hint="listen on 127.0.0.1, or set compat_beyond_loopback where the network is private",
    )


def _on_loopback(listen: str) -> bool:
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Where `engine.Engine`, which knows no token, may be offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.errors import InvalidRequest
from odfabric_engine_spark.serve.contract.address import check_contract_address
from odfabric_engine_spark.spark.settings import EngineSettings


def settings(listen: str, *, compat: bool = True, beyond: bool = False) -> EngineSettings:
    return EngineSettings(exchange=Path("x"), compat=compat, compat_listen=listen, compat_beyond_loopback=beyond)


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:5544", "[::]:5544", "10.0.0.7:5544", "engine.example:5544", ":5544", "5544"]
)
def test_other_machines_only_if_settings_say_so(listen: str) -> None:
    with pytest.raises(InvalidRequest, match="no authentication"):
        check_contract_address(settings(listen))
    check_contract_address(settings(listen, beyond=True))
    check_contract_address(settings(listen, compat=False))


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:5544", "127.8.9.1:0", "[::1]:5544", "localhost:5544", "unix:/run/engine"]
)
def test_this_machine_is_no_question(listen: str) -> None:
    check_contract_address(settings(listen))


def test_it_is_not_offered_unless_asked_for() -> None:
    assert not EngineSettings(exchange=Path("x")).compat
    check_contract_address(EngineSettings(exchange=Path("x"), compat=True))

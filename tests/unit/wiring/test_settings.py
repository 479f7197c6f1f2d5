"""Limits of adapters and formats are those of the one table of settings."""

from dataclasses import asdict, fields

import pytest
from pydantic import ValidationError

from odfabric.adapters.http.egress import EgressLimits
from odfabric.formats.blocks.block import BLOCK_BYTES_MAX
from odfabric.formats.manifests.manifest_events import VALUE_DEPTH_MAX
from odfabric.formats.manifests.manifest_yaml import MANIFEST_LIMITS
from odfabric.settings import Settings
from odfabric.wiring.embedded import egress_limits


def test_every_limit_of_outgoing_requests_is_a_setting() -> None:
    assert egress_limits(Settings()) == EgressLimits()
    others = {field.name: value for field, value in zip(fields(EgressLimits), _others(), strict=True)}
    changed = Settings.model_validate({f"egress_{name}": value for name, value in others.items()})
    assert asdict(egress_limits(changed)) == others


def _others() -> list[object]:
    """A value for each limit, none of them its default."""
    found = [getattr(EgressLimits(), field.name) for field in fields(EgressLimits)]
    return [value + 1 if isinstance(value, int | float) else (1, 2) for value in found]


def test_limits_of_manifests_are_settings() -> None:
    settings = Settings()
    assert settings.manifest_bytes_max == MANIFEST_LIMITS.bytes_max
    assert settings.manifest_depth_max == MANIFEST_LIMITS.depth_max
    assert settings.manifest_nodes_max == MANIFEST_LIMITS.nodes_max


def test_blocks_are_not_larger_than_the_codec_reads() -> None:
    assert Settings().block_bytes_max == BLOCK_BYTES_MAX
    with pytest.raises(ValidationError, match="block_bytes_max"):
        Settings(block_bytes_max=BLOCK_BYTES_MAX + 1)


def test_manifests_are_not_read_deeper_than_values_are_checked() -> None:
    assert Settings(manifest_depth_max=VALUE_DEPTH_MAX).manifest_depth_max == VALUE_DEPTH_MAX
    with pytest.raises(ValidationError, match="manifest_depth_max"):
        Settings(manifest_depth_max=VALUE_DEPTH_MAX + 1)

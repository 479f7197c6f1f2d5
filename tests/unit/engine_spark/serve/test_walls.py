"""How long a call may work, and under which name its caller sees it."""

from pathlib import Path

import pytest

from odfabric.model.engine import ValidateRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.serve.servicer import wall_of
from odfabric_engine_spark.spark.settings import EngineSettings

JUDGED = ValidateRequest(
    vocabulary=DatasetVocabulary(),
    transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
    inputs=(),
)


@pytest.mark.parametrize(
    ("request_", "remaining_s", "told"),
    [
        (JUDGED, 60.1, ("engine_validate_s_max", 60.0)),
        (JUDGED, 0.52, ("engine_validate_s_max", 0.5)),
        (JUDGED, None, ("call_s_max", 100.0)),
        (object(), 60.1, ("engine_call_s_max", 60.0)),
        (object(), 200.0, ("call_s_max", 100.0)),
    ],
)
def test_the_limit_that_is_told_is_the_one_that_can_be_raised(
    tmp_path: Path, request_: object, remaining_s: float | None, told: tuple[str, float]
) -> None:
    wall = wall_of(request_, EngineSettings(exchange=tmp_path, call_s_max=100.0), remaining_s)
    assert (wall.limit, wall.maximum) == told
    assert wall.seconds < (remaining_s or 1000.0)

"""Small join sides are hashed: Spark's plan then, and equal rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.operators.touched_keys.hash_joins import HashedJoins, Size
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, analysed
from odfabric_engine_spark.spark.frames.local_rows import local_rows

pytestmark = pytest.mark.spark

MANY, FEW = Size(30_000, 1 << 20), Size(10_000, 1 << 20)
LEFT = pa.table({"k": [1, 2, 2, None], "v": [1, 2, 3, 4]})
RIGHT = pa.table({"w": [2, 3, None], "x": [5, 6, 7]})


@pytest.mark.parametrize(
    ("left", "right", "built"),
    [
        (MANY, FEW, "BuildRight"),
        (FEW, MANY, "BuildLeft"),
        (MANY, MANY, None),
        (MANY, Size(10_001, 1), None),
        (MANY, Size(1, (16 << 20) + 1), None),
        (Size(900_000, 1), Size(250_001, 1), None),
        (Size(19_999, 1), Size(1, 1), None),
        (MANY, None, None),
        (None, FEW, None),
    ],
)
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "leftsemi", "leftanti", "existence"])
def test_small_side_is_hashed(
    left: Size | None, right: Size | None, built: str | None, kind: str, engine_call: EngineCall
) -> None:
    session = engine_call.session
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    catalyst = Catalyst(session)
    one, other = local_rows(session, LEFT), local_rows(session, RIGHT)
    frame = one.join(other, one["k"] == other["w"], "leftsemi" if kind == "existence" else kind)
    if kind == "existence":
        frame = catalyst.data_frame(_with_mark(catalyst, analysed(frame)))
    chosen = catalyst.data_frame(HashedJoins(catalyst).chosen(analysed(frame), left, right))
    said = str(chosen._jdf.queryExecution().executedPlan())
    one_sided = ("leftsemi", "leftanti", "existence")
    if (built == "BuildRight" and kind != "right") or (built == "BuildLeft" and kind not in one_sided):
        assert "ShuffledHashJoin" in said
        assert built in said
    else:
        assert "SortMergeJoin" in said
    assert sorted(map(str, chosen.collect())) == sorted(map(str, frame.collect()))


def _with_mark(catalyst: Catalyst, join: Plan) -> Plan:
    """A join that marks left rows with a match, as `v = 1 OR k IN (SELECT ..)` does."""
    mark = catalyst.named(catalyst.literal_true(), "mark").toAttribute()
    kind = catalyst.jvm.org.apache.spark.sql.catalyst.plans.ExistenceJoin(mark)
    return catalyst.logical.Join(join.left(), join.right(), kind, join.condition(), join.hint())

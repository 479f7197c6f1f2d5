"""What a row-wise transform means to the reference, said to our engine."""

from __future__ import annotations

from odfabric.domain.transform.reference_meaning import in_the_reference
from odfabric.model.metadata import SqlQueryStep, TransformSql


def test_every_record_of_the_output_is_appended() -> None:
    written = TransformSql(engine="spark", query="SELECT * FROM a")
    meant = in_the_reference(written, operation="op")
    assert (meant.engine, meant.query) == ("spark", None)
    assert meant.queries == (
        SqlQueryStep(alias="as_written", query="SELECT * FROM a"),
        SqlQueryStep(query="SELECT 0 AS `op`, * FROM as_written"),
    )


def test_steps_stay_and_names_do_not_clash() -> None:
    early = (SqlQueryStep(alias="as_written", query="SELECT 1"), SqlQueryStep(alias="as_written_", query="SELECT 2"))
    written = TransformSql(engine="spark", queries=(*early, SqlQueryStep(query="SELECT 3")))
    meant = in_the_reference(written, operation="o`p")
    assert meant.queries == (
        *early,
        SqlQueryStep(alias="as_written__", query="SELECT 3"),
        SqlQueryStep(query="SELECT 0 AS `o``p`, * FROM as_written__"),
    )

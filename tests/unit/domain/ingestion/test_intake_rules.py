"""Rules of a source, as they stand beside its columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odfabric.domain.ingestion.intake_rules import CONTRACT, SHRINK_MAX, WRONG_ROWS, intake_rules
from odfabric.errors import InvalidManifest
from odfabric.model.data_schema import DataSchema, ExtraAttributes
from odfabric.model.intake import FieldContract, IntakeRules, WrongRows
from odfabric.model.source import ReadStepNdJson, ReadStepParquet


def source(**extra: Any) -> ReadStepNdJson:
    entries = ExtraAttributes(entries=json.dumps(extra))
    return ReadStepNdJson(schema=DataSchema(fields=(), extra=entries))


def test_a_source_that_says_nothing_has_the_rules_of_all() -> None:
    assert intake_rules(ReadStepNdJson()) == intake_rules(source()) == IntakeRules()
    assert intake_rules(source(**{"other.org/contract": 7})) == IntakeRules()


def test_all_rules_are_read() -> None:
    found = intake_rules(source(**{CONTRACT: "freeze", WRONG_ROWS: "quarantine", SHRINK_MAX: 1}))
    assert found == IntakeRules(contract=FieldContract.FREEZE, wrong_rows=WrongRows.QUARANTINE, shrink_max=1.0)


@pytest.mark.parametrize(
    ("name", "value", "way"),
    [
        (CONTRACT, "evovle", "discard, freeze"),
        (WRONG_ROWS, True, "refuse, quarantine"),
        (SHRINK_MAX, 2, "from 0 to 1"),
        (SHRINK_MAX, True, "from 0 to 1"),
        ("odfabric.dev/contracts", "freeze", CONTRACT),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_what_to_write(name: str, value: object, way: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        intake_rules(source(**{name: value}))
    assert name in (refused.value.place.field or "")
    assert way in (refused.value.hint or "")


def test_rows_of_parquet_are_not_rejected_one_by_one() -> None:
    read = ReadStepParquet(schema=source(**{WRONG_ROWS: "quarantine"}).schema)
    with pytest.raises(InvalidManifest, match="Parquet"):
        intake_rules(read)

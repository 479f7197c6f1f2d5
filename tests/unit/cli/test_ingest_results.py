"""What commands say of pushes and pulls."""

from typing import Any

import pytest

from odfabric.cli.ingest_results import said_of, show_trial
from odfabric.cli.output import Output

NOTHING = {"added": 0, "corrected": 0, "retracted": 0, "unchanged": 0}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"rows": 2}, "2 new rows"),
        ({"changes": NOTHING}, "0 rows added"),
        ({"changes": {**NOTHING, "added": 1}}, "1 row added"),
        (
            {"changes": {"added": 3, "corrected": 1, "retracted": 2, "unchanged": 5}},
            "3 rows added, 1 corrected, 2 retracted, 5 unchanged",
        ),
        ({"changes": {**NOTHING, "retracted": 2}}, "2 rows retracted"),
        ({"changes": {**NOTHING, "knownKeys": 1}}, "1 row left out, for their keys are known"),
        (
            {"changes": {**NOTHING, "added": 1}, "undeclaredFields": [{"name": "colour", "rows": 1}]},
            "1 row added; not stored, for no column is declared for it: `colour` (1 row)",
        ),
    ],
)
def test_counts_are_words(result: dict[str, Any], said: str) -> None:
    assert said_of(result) == said


def test_a_trial_shows_records_or_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    trial = {"changes": {**NOTHING, "added": 1}, "sample": [{"op": 0, "id": 7}]}
    show_trial(trial, "a.csv", output)
    assert capsys.readouterr().out.splitlines() == [
        "a.csv: 1 row added (nothing is committed)",
        "op      id",
        "append   7",
    ]
    refused = [{"line": 3, "column": "id", "value": "x", "wanted": "WHOLE"}, {"line": 4, "message": "no row"}]
    show_trial({"problem": {"message": "m"}, "refused": refused, "refusedCount": 9}, "a.csv", output)
    shown = capsys.readouterr().out
    assert "would be refused" in shown
    assert "x is not whole" in shown
    assert "no row" in shown
    assert "and 7 values more" in shown
    show_trial({"problem": {"message": "no header"}, "refused": [], "refusedCount": 0}, "a.csv", output)
    assert "no header" in capsys.readouterr().out

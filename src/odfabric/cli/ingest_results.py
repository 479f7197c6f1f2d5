"""What pushes and pulls have done, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odfabric.cli.output import Output, counted
from odfabric.model.operation import OperationType


def said_of(result: Mapping[str, object]) -> str:
    """The result in words: "3 rows added, 1 corrected; stored `op` as `_op`, ..".

    The reason follows: system columns have these names.
    """
    rows = _changes(result) if "changes" in result else _new_rows(result)
    notes = (_dropped_rows, _renamed_columns, _undeclared_fields, _added_columns, _rejected_rows, _watermark_ahead)
    return rows + "".join(note(result) for note in notes)


def _changes(result: Mapping[str, Any]) -> str:
    """E.g. "3 rows added, 1 corrected, 5 unchanged"."""
    words = {"added": "added", "corrected": "corrected", "retracted": "retracted", "unchanged": "unchanged"}
    words["knownKeys"] = "left out, for their keys are known"
    counts = [(result["changes"].get(name, 0), word) for name, word in words.items()]
    (first, word), *others = [(count, word) for count, word in counts if count] or counts[:1]
    return ", ".join([f"{counted(first, 'row')} {word}", *(f"{count} {word}" for count, word in others)])


def _rejected_rows(result: Mapping[str, Any]) -> str:
    if rejected := result.get("rejectedRows"):
        return f"; {counted(rejected['rows'], 'row')} rejected, see {rejected['dataset']}"
    return f"; {counted(result['rejected'], 'row')} would be rejected" if result.get("rejected") else ""


def _watermark_ahead(result: Mapping[str, Any]) -> str:
    """Rows of a year that is wrong close the windows of the time until then."""
    if (ahead := result.get("watermarkAhead")) is None:
        return ""
    return (
        f"; the watermark is now {ahead}, far ahead of the clock: windows up to then are closed and earlier rows come late"
        " (`odf reset` takes the rows back)"
    )


def _added_columns(result: Mapping[str, Any]) -> str:
    named = ", ".join(f"`{name}`" for name in result.get("addedColumns", ()))
    return f"; the dataset has a new column: {named}" if named else ""


def _undeclared_fields(result: Mapping[str, Any]) -> str:
    listed = result.get("undeclaredFields", ())
    named = ", ".join(f"`{one['name']}` ({counted(one['rows'], 'row')})" for one in listed)
    return f"; not stored, for no column is declared for it: {named}" if named else ""


def _renamed_columns(result: Mapping[str, object]) -> str:
    renamed = result.get("renamedColumns")
    if not isinstance(renamed, list) or not renamed:
        return ""
    listed = ", ".join(f"`{one['from']}` as `{one['to']}`" for one in renamed)
    return f"; stored {listed}, for system columns have these names"


def _new_rows(result: Mapping[str, object]) -> str:
    return counted(int(str(result["rows"])), "new row")


def _dropped_rows(result: Mapping[str, object]) -> str:
    dropped = int(str(result.get("lateRowsDropped", 0)))
    return f", {counted(dropped, 'late row')} dropped" if dropped else ""


def show_trial(result: Mapping[str, Any], file: str, output: Output) -> None:
    """What a push would do: counts and first records, or what is wrong with the file."""
    if "problem" not in result:
        output.result(None, f"{file}: {said_of(result)} (nothing is committed)")
        output.rows([_record(one) for one in result["sample"]])
        return
    output.result(None, f"{file}: would be refused, nothing is committed")
    if not result["refused"]:
        output.result(None, str(result["problem"].get("detail") or result["problem"]["message"]))
        return
    output.rows([_refused(one) for one in result["refused"]])
    left = result["refusedCount"] - len(result["refused"])
    if left:
        output.result(None, f"and {counted(left, 'value')} more")


def _record(record: Mapping[str, object]) -> dict[str, object]:
    operation = record.get("op")
    return {**record, "op": OperationType(operation).word} if isinstance(operation, int) else dict(record)


def _refused(value: Mapping[str, object]) -> dict[str, object]:
    found = value.get("message") or f"{value.get('value', 'nothing')} is not {str(value.get('wanted', '')).lower()}"
    return {"line": value.get("line"), "column": value.get("column", ""), "what": found}

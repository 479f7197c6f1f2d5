"""`odf why`: the rows of inputs behind a record, down to what was ingested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import typer

from odfabric.cli.backends.backend import Backend
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import Output, counted
from odfabric.errors import InvalidRequest, NotFound, Place
from odfabric.model.operation import OperationType
from odfabric.model.why_request import ALL_KINDS, LIMIT_DEFAULT, WhyRequest

WHERE_ROWS_MAX = 10_000
"""Records among which `--where` looks for those that are there now."""
_WITHDRAWALS = (OperationType.RETRACT, OperationType.CORRECT_FROM)


class WhyFormat(Enum):
    """How an answer is shown."""

    TABLE = "table"
    TREE = "tree"
    JSON = "json"
    PROV = "prov"
    OPENLINEAGE = "openlineage"


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("why")(why)


def why(
    context: typer.Context,
    ref: str = typer.Argument("", help="Name, account/name or did:odf:... of a dataset"),
    offsets: list[int] = typer.Argument(None, help="Offsets of records", min=0, show_default=False),
    where: str = typer.Option("", help="SQL condition: ask of the rows that are there now, such as `k = 5`"),
    columns: list[str] = typer.Option([], "--column", "-c", help="Cells asked for; may be repeated. Default: all"),
    depth: str = typer.Option("all", help="How many datasets to follow records through, or `all`"),
    trigger: bool = typer.Option(False, "--trigger", help="Ask only what made the node write the record"),
    minimal: bool = typer.Option(False, "--minimal", help="Leave out rows that are not needed"),
    values: bool = typer.Option(True, help="Show the values of rows"),
    limit: int = typer.Option(LIMIT_DEFAULT, "--limit", "-n", min=1, help="Rows of each input that are followed"),
    after: str = typer.Option("", help="`next` of the page before"),
    whole: bool = typer.Option(False, "--all", help="Read as many rows as it takes"),
    ask_peers: bool = typer.Option(
        False, "--ask-peers", help="Where inputs are not here, ask the node that the dataset was pulled from"
    ),
    check: str = typer.Option("", help="Check the answer in this file, of another node, by the datasets here"),
    shape: WhyFormat = typer.Option(WhyFormat.TREE, "--format", "-f"),
) -> None:
    """Explain records: the rows of inputs behind them, and what made them change.

    Every answer is checked by running the query over those rows alone.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        if check:
            _check(backend, output, check, whole=whole)
            return
        asked = WhyRequest(
            offsets=tuple(offsets or ()) + (_present(backend, ref, where) if where else ()),
            columns=tuple(columns),
            depth=depth,
            effort="minimal" if minimal else "verified",
            limit=limit,
            after=after or None,
            values=values,
            whole=whole,
            peers=ask_peers,
            kinds=("trigger",) if trigger else tuple(ALL_KINDS.split(",")),
        )
        if not asked.offsets:
            raise InvalidRequest(
                "which records?", place=Place(field="offsets"), hint="odf why ds 17, or --where 'k = 5'"
            )
        if shape is WhyFormat.PROV or shape is WhyFormat.OPENLINEAGE:
            given = context_of(context)
            namespace = given.node or Path(given.workspace).absolute().as_uri()
            form: Literal["prov", "openlineage"] = "prov" if shape is WhyFormat.PROV else "openlineage"
            output.document(backend.why_in(ref, asked, form, namespace=namespace))
            return
        answer = backend.why(ref, asked)
    _show(output, answer, shape)


def _check(backend: Backend, output: Output, path: str, *, whole: bool) -> None:
    """Hold an answer against the datasets here; exit code 1 if they differ."""
    from odfabric.cli.provenance.why_check import check_answer, read_answer, verdict_lines

    checked = list(check_answer(backend, read_answer(path), whole=whole))
    wrong = [one for one in checked if one.message is not None]
    if output.as_json:
        errors = [
            {
                "dataset": one.dataset,
                "offset": one.offset,
                "record": one.name,
                "message": one.message,
                "possible": one.possible,
            }
            for one in wrong
        ]
        output.document({"ok": not wrong, "checked": sum(one.possible for one in checked), "errors": errors})
    else:
        for line in verdict_lines(checked):
            output.result(None, line)
    if wrong:
        raise typer.Exit(1)


def _show(output: Output, answer: Mapping[str, Any], shape: WhyFormat) -> None:
    from odfabric.cli.provenance.why_text import why_rows, why_tree

    if output.as_json or shape is WhyFormat.JSON:
        output.document(answer)
        return
    if shape is WhyFormat.TABLE:
        output.rows(why_rows(answer))
    else:
        output.text("\n".join(why_tree(answer)))
    cost = answer["cost"]
    output.say(f"{counted(cost['derivations'], 'derivation')}, {counted(cost['rowsRead'], 'row')} read")
    left = sum(one.get("end", {}).get("reason") == "depth" for one in answer["records"])
    if left:
        output.say(f"{counted(left, 'record')} not followed further: ask why of one of them, or with more --depth")
    if any(one.get("end", {}).get("reason") == "not-here" for one in answer["records"]):
        output.say("some inputs are on another node: --ask-peers asks the one that the dataset was pulled from")
    claimed = sum("claimedBy" in one for one in answer["records"])
    if claimed:
        output.say(
            f"{'1 record is' if claimed == 1 else f'{claimed} records are'} as other nodes say: "
            "save the answer with --format json, pull the datasets, then odf why --check FILE"
        )
    if answer["next"]:
        output.say(f"there are more rows: --after {answer['next']}")


def _present(backend: Backend, ref: str, where: str) -> tuple[int, ...]:
    """Offsets of the records of rows that are there now and fulfil a condition.

    Raises NotFound if there are none.
    """
    name = "`" + ref.replace("`", "``") + "`"
    rows = backend.sql(f"SELECT * FROM {name} WHERE ({where})", limit=WHERE_ROWS_MAX)
    if len(rows) == WHERE_ROWS_MAX:
        raise InvalidRequest(f"more than {WHERE_ROWS_MAX} records fulfil it", hint="narrow the condition")
    found = present_offsets(rows)
    if not found:
        raise NotFound("row", where, hint="no row that is there now fulfils the condition")
    return found


def present_offsets(rows: Sequence[Mapping[str, object]]) -> tuple[int, ...]:
    """Offsets of records whose rows are there after all of these.

    A withdrawal takes the latest equal row. The first three columns are offset, operation and system time, as in every dataset.
    """
    there: dict[str, list[int]] = {}
    for row in sorted(rows, key=lambda each: int(str(next(iter(each.values()))))):
        offset, operation, _, *values = row.values()
        stack = there.setdefault(json.dumps(values, default=str), [])
        if operation in _WITHDRAWALS:
            if stack:
                stack.pop()
        else:
            stack.append(int(str(offset)))
    return tuple(sorted(offset for stack in there.values() for offset in stack))

"""Verbs below `odf engine`: what it is, and judging queries without running them.

Owns where queries come from and how judgements are shown. Exit codes are those of every command: 0 all accepted, 1 something was
refused. Not here: the form of a batch (`usecases.queries.validate_queries`), what is wrong with a query (the engine).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from odfabric.cli.backends.backend import check_file, source_text
from odfabric.cli.context import CommandContext, context_of
from odfabric.errors import InvalidRequest, NotFound, Place

if TYPE_CHECKING:
    from odfabric.formats.manifests.manifest_places import PlacedSnapshot
    from odfabric.model.engine import QueryInput, ValidateRequest
    from odfabric.ports.engine import Engine
    from odfabric.settings import Settings
    from odfabric.usecases.queries.validate_queries import BatchLimits
    from odfabric.wiring import Node

STDIN = "-"

_STEP = re.compile(r"\s*([A-Za-z_]\w*)\s*:\s*(.+)", re.DOTALL | re.ASCII)

app = typer.Typer(help="The engine: what it is, judging queries.", no_args_is_help=True)


@app.command("info")
def info(context: typer.Context) -> None:
    """The engine of this machine: versions, digest, and its sandbox."""
    given = context_of(context)
    if given.node is not None:
        raise InvalidRequest("a node keeps its engine to itself", hint="leave --node out")
    with _engine(given) as (running, _, _):
        found = running.info()
    told = {
        "name": found.name,
        "version": found.version,
        "digest": found.digest,
        "sparkVersion": found.spark_version,
        "javaVersion": found.java_version,
        "sandbox": list(found.sandbox),
        "executors": found.executors,
    }
    walls = ", ".join(found.sandbox) or "none"
    line = f"{found.name} {found.version}, Spark {found.spark_version}, Java {found.java_version}; sandbox: {walls}"
    line += "" if found.executors is None else f"; executors: {found.executors}"
    given.output.result(told, line)


@app.command("validate")
def validate(
    context: typer.Context,
    manifest: str = typer.Argument("", help="Manifest of derivative datasets, - for standard input"),
    batch: str = typer.Option("", help="File of queries, one JSON object a line, - for standard input"),
    query: list[str] = typer.Option([], help="A query, or `alias: query` for the steps before the last"),
    inputs: list[str] = typer.Option([], "--input", help="`alias=id BIGINT, ..` (Spark's DDL) or `alias=dataset`"),
    engine: str = typer.Option("spark", help="Dialect of --query: spark, flink, risingwave, datafusion"),
) -> None:
    """Judge transforms without running them.

    What they give, how they run, or everything that is wrong with them.

    A batch has lines `{"id", "queries", "inputs": [{"alias", "schema"}]}` and gets lines `{"id", "ok", "schema", "operators", "errors"}`
    in the same order. `queries` is a query or a list of `{"alias", "query"}`; a schema is a list of fields, or `{"ddl": "id BIGINT"}`.
    """
    given = context_of(context)
    if given.node is not None:
        raise InvalidRequest("queries are judged by an engine of this machine", hint="leave --node out")
    if sum(map(bool, (manifest, batch, query))) != 1:
        raise InvalidRequest("name one of a manifest, --query and --batch")
    from odfabric.cli.query_judgements import is_accepted, show_judgements
    from odfabric.usecases.queries.validate_queries import BatchLimits
    from odfabric.usecases.transform.judge_transform import snapshot_request

    with _engine(given) as (running, node, settings):
        running.info()  # an engine that cannot be had is reported once, not at every line
        if batch:
            limits = BatchLimits(
                line_bytes_max=settings.validate_line_bytes_max, at_once_max=settings.validate_at_once_max
            )
            accepted = _validate_batch(batch, engine=running, limits=limits)
        else:
            described = _described(inputs, node)
            placed = _derivatives_of(manifest, settings) if manifest else {}
            repository = None if node is None else node.repository
            expected = None if node is None else node.datasets.expected_columns().of
            asked = (
                {
                    name: snapshot_request(each.snapshot, repository=repository, described=described, expected=expected)
                    for name, each in placed.items()
                }
                if manifest
                else {"query": _request_of(query, described, dialect=engine)}
            )
            judged = {name: running.validate_query(request) for name, request in asked.items()}
            show_judgements(given.output, judged, placed)
            accepted = all(is_accepted(result) for result in judged.values())
    if not accepted:
        raise typer.Exit(1)


def _validate_batch(file: str, *, engine: Engine, limits: BatchLimits) -> bool:
    """Writes each answer when it is there; whether all were accepted."""
    from odfabric.usecases.queries.validate_queries import lines_of, validate_lines

    accepted = True
    with _opened(file) as stream:
        lines = lines_of(stream, line_bytes_max=limits.line_bytes_max)
        for answer in validate_lines(lines, engine=engine, limits=limits):
            accepted = accepted and answer["ok"] is True
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
            sys.stdout.flush()
    return accepted


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
        return
    check_file(file)
    with Path(file).open("rb") as stream:
        yield stream


@contextmanager
def _engine(given: CommandContext) -> Iterator[tuple[Engine, Node | None, Settings]]:
    """The workspace's engine, or one of its own where there is no workspace."""
    from odfabric.settings import read_settings
    from odfabric.wiring import is_workspace, open_engine, open_node

    settings = read_settings(workspace=Path(given.workspace).absolute(), poll_anywhere=True)
    if is_workspace(settings):
        with open_node(settings) as node:
            yield node.ports.engine, node, settings
        return
    with open_engine(settings) as engine:
        yield engine, None, settings


def _described(inputs: Sequence[str], node: Node | None) -> dict[str, QueryInput]:
    """Inputs that were described on the command line, by alias."""
    from odfabric.domain.chain.schema_evolution import current_schema
    from odfabric.formats.identifiers.references import parse_dataset_ref
    from odfabric.model.engine import QueryInput
    from odfabric.model.vocabulary import DatasetVocabulary

    found: dict[str, QueryInput] = {}
    for given in inputs:
        alias, equals, text = given.partition("=")
        if not (alias and equals and text):
            raise InvalidRequest(
                f"{given!r} is no input", place=Place(field="--input"), hint="alias=id BIGINT, name STRING"
            )
        vocabulary, schema, ddl = DatasetVocabulary(), None, text
        if not any(sign in text for sign in " ,:"):
            if node is None:
                raise NotFound("workspace", "", hint="describe the input: --input 'alias=id BIGINT'")
            entry = node.datasets.resolve(parse_dataset_ref(text))
            _, state = node.repository.current(entry.id)
            vocabulary, schema, ddl = state.vocabulary, current_schema(state), ""
        found[alias] = QueryInput(alias=alias, vocabulary=vocabulary, data_schema=schema, ddl=ddl or None)
    return found


def _request_of(queries: Sequence[str], described: Mapping[str, QueryInput], *, dialect: str) -> ValidateRequest:
    from odfabric.model.engine import ValidateRequest
    from odfabric.model.metadata import SqlQueryStep, TransformSql
    from odfabric.model.vocabulary import DatasetVocabulary

    steps = [_STEP.match(text) for text in queries[:-1]]
    for text, step in zip(queries, steps, strict=False):
        if step is None:
            raise InvalidRequest(
                f"{text[:60]!r} has no alias", place=Place(field="--query"), hint="`alias: query` for all but the last"
            )
    early = tuple(SqlQueryStep(alias=step[1], query=step[2]) for step in steps if step is not None)
    transform = TransformSql(engine=dialect, queries=(*early, SqlQueryStep(query=queries[-1])))
    return ValidateRequest(vocabulary=DatasetVocabulary(), transform=transform, inputs=tuple(described.values()))


def _derivatives_of(manifest: str, settings: Settings) -> dict[str, PlacedSnapshot]:
    """The derivative datasets of a manifest file by their names."""
    from odfabric.formats.manifests.manifest_yaml import parse_placed_snapshots
    from odfabric.formats.manifests.yaml_documents import TextLimits
    from odfabric.model.metadata import DatasetKind

    limits = TextLimits(settings.manifest_bytes_max, settings.manifest_depth_max, settings.manifest_nodes_max)
    text, shown = source_text(manifest, bytes_max=limits.bytes_max)
    found = {
        str(placed.snapshot.name): placed
        for placed in parse_placed_snapshots(text, file=shown, limits=limits)
        if placed.snapshot.kind is DatasetKind.DERIVATIVE
    }
    if not found:
        raise InvalidRequest(f"{shown} declares no derivative dataset", hint="only transforms are judged")
    return found

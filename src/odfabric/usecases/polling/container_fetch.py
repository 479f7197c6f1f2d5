"""Fetch what a container prints, by ODF's protocol.

Variables say where to go on, files say how far it came.

Owns the variables and the rules of the answer. Invariant: a container that says it is where it was has printed nothing, and one that says
there is more has moved on; anything else is an error, because it would repeat or lose rows. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

from pathlib import Path

from odfabric.domain.sources.polled_content import PolledContent
from odfabric.domain.sources.polling import ETAG, LAST_MODIFIED, etag_state, last_modified_state, value_of
from odfabric.domain.sources.source_templates import Expanded, Lookup, expand_template, without_secrets
from odfabric.errors import InvalidData, InvalidManifest, InvalidName, NotFound, OdfError, Place
from odfabric.model.instant import Instant
from odfabric.model.metadata import SourceState
from odfabric.model.source import FetchStepContainer
from odfabric.ports.sources.containers import OUTPUT_FOLDER, ContainerAnswer, ContainerRun, ContainerSource
from odfabric.usecases.polling.fetch_url import hash_of
from odfabric.usecases.polling.fetched import Fetched, NotModified

BATCH_SIZE = "ODF_BATCH_SIZE"
DEFAULT_BATCH_SIZE = "10000"
FILE_NAME = "container"
"""What users see as the file in errors."""


def fetch_container(
    step: FetchStepContainer, last: SourceState | None, folder: Path, *, containers: ContainerSource, lookup: Lookup
) -> Fetched | NotModified:
    """Run the container of a step.

    Raises as `ContainerSource.fetch`, and as `container_run`; InvalidData for a broken protocol.
    """
    run, secrets = container_run(step, last, lookup)
    into = folder / FILE_NAME
    try:
        answer = containers.fetch(run, into)
        new_state = _new_state(answer)
        _check_protocol(answer, last, new_state)
    except OdfError as error:
        raise without_secrets(error, secrets) from None
    if new_state is not None and new_state == last:
        return NotModified()
    return Fetched(
        path=into,
        name=FILE_NAME,
        source_state=new_state,
        event_time=None,
        polled=PolledContent(content=hash_of(into)),
        remaining=int(answer.has_more),
        secrets=secrets,
    )


def container_run(
    step: FetchStepContainer, last: SourceState | None, lookup: Lookup
) -> tuple[ContainerRun, tuple[str, ...]]:
    """What is run, with templates expanded, and the values of secrets in it.

    Raises InvalidManifest, NotFound for a variable.
    """
    image = expand_template(step.image, lookup, field="fetch.image")
    args = [expand_template(text, lookup, field=f"fetch.args[{at}]") for at, text in enumerate(step.args or ())]
    declared: dict[str, Expanded] = {}
    for at, variable in enumerate(step.env or ()):
        field = f"fetch.env[{at}]"
        declared[variable.name] = (
            _from_variables(variable.name, lookup, field)
            if variable.value is None
            else expand_template(variable.value, lookup, field=f"{field}.value")
        )
    batch_size = declared.get(BATCH_SIZE, Expanded(DEFAULT_BATCH_SIZE)).text
    if not (batch_size.isascii() and batch_size.isdecimal()):
        raise InvalidManifest(f"{BATCH_SIZE} is not a number: {batch_size[:100]!r}", place=Place(field="fetch.env"))
    environment = {
        **{name: value.text for name, value in declared.items()},
        "ODF_ETAG": value_of(last, ETAG) or "",
        "ODF_LAST_MODIFIED": value_of(last, LAST_MODIFIED) or "",
        "ODF_NEW_ETAG_PATH": f"{OUTPUT_FOLDER}/new-etag",
        "ODF_NEW_LAST_MODIFIED_PATH": f"{OUTPUT_FOLDER}/new-last-modified",
        "ODF_NEW_HAS_MORE_DATA_PATH": f"{OUTPUT_FOLDER}/new-has-more-data",
        BATCH_SIZE: batch_size,
    }
    secrets = [secret for value in (image, *args, *declared.values()) for secret in value.secrets]
    run = ContainerRun(
        image=image.text,
        command=step.command or (),
        args=tuple(arg.text for arg in args),
        environment=environment,
    )
    return run, tuple(dict.fromkeys(secrets))


def _from_variables(name: str, lookup: Lookup, field: str) -> Expanded:
    value = lookup(name)
    if value is None:
        error = NotFound("variable", name, hint=f"set it: odf variables set DATASET {name}, or write a value")
        error.place = Place(field=field)
        raise error
    return Expanded(value.text, (value.text,) if value.secret else ())


def _new_state(answer: ContainerAnswer) -> SourceState | None:
    if answer.new_etag:
        return etag_state(answer.new_etag)
    if not answer.new_last_modified:
        return None
    try:
        return last_modified_state(Instant.parse(answer.new_last_modified))
    except (ValueError, InvalidName):
        raise InvalidData(
            f"the container's new-last-modified is no time: {answer.new_last_modified[:100]!r}",
            hint="write RFC 3339, 2026-01-31T12:00:00Z",
        ) from None


def _check_protocol(answer: ContainerAnswer, last: SourceState | None, new_state: SourceState | None) -> None:
    stays = new_state is not None and new_state == last
    if stays and answer.size:
        raise InvalidData(
            "the container says that nothing is new, and prints data", hint="write another etag with new data"
        )
    if answer.has_more and (stays or new_state is None):
        raise InvalidData(
            "the container says that there is more, but not how far it came",
            hint="write its new etag to ODF_NEW_ETAG_PATH",
        )

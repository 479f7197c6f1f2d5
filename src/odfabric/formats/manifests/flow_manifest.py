"""Manifests of flows: documents of the kind `odfabric/Flow`.

The chain of a dataset has no place for them.

```yaml
kind: odfabric/Flow
version: 1
content:
  dataset: weather
  flow: poll
  rule: {trigger: {every: 1h}}
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfabric.errors import InvalidManifest, InvalidRequest, Place
from odfabric.formats.manifests.flow_rule import parse_rule
from odfabric.formats.manifests.manifest_documents import Document, read_documents
from odfabric.formats.manifests.yaml_documents import Path, TextLimits
from odfabric.model.jobs.flow import FlowKind, FlowRule

KIND = "odfabric/Flow"
_MEMBERS = {"dataset", "flow", "rule"}


@dataclass(frozen=True, slots=True)
class FlowManifest:
    """One document: which flow of which dataset gets which rule."""

    dataset: str
    kind: FlowKind
    rule: FlowRule


def parse_flow_manifests(text: str, *, file: str | None, limits: TextLimits) -> Iterator[FlowManifest]:
    """All documents of a text.

    Raises InvalidManifest with file, line, column and member.
    """
    for document in read_documents(text, file=file, limits=limits):
        yield _parsed(document, file)


def _parsed(document: Document, file: str | None) -> FlowManifest:
    value = document.value
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        raise _refusal(document, file, ("kind",), f"a manifest of a flow has the kind `{KIND}`")
    if value.get("version") != 1:
        raise _refusal(document, file, ("version",), "the version of a manifest of a flow is 1")
    content = value.get("content")
    if not isinstance(content, Mapping) or set(content) != _MEMBERS:
        hint = f"the members of `content` are {', '.join(sorted(_MEMBERS))}"
        raise _refusal(document, file, ("content",), "not the content of a flow", hint=hint)
    dataset, kind = content["dataset"], content["flow"]
    if not isinstance(dataset, str):
        raise _refusal(document, file, ("content", "dataset"), "the name of a dataset is a text")
    if kind not in [each.value for each in FlowKind]:
        hint = f"write one of {', '.join(each.value for each in FlowKind)}"
        raise _refusal(document, file, ("content", "flow"), "not a flow", hint=hint)
    try:
        return FlowManifest(dataset, FlowKind(kind), parse_rule(content["rule"]))
    except InvalidRequest as error:
        field = error.place.field or "" if error.place else ""
        path: Path = ("content", "rule", *field.split("."))
        raise _refusal(document, file, path, error.message, hint=error.hint) from error


def _refusal(
    document: Document, file: str | None, path: Path, message: str, *, hint: str | None = None
) -> InvalidManifest:
    line, column = document.locate(path)
    field = ".".join(str(step) for step in path)
    return InvalidManifest(message, place=Place(file=file, line=line, column=column, field=field), hint=hint)

"""Snapshots with the way back to the places of errors in their manifest.

Invariant: a line and column of the file are reported only where they are those of what is wrong; otherwise the line where the query, or the
event, or the dataset's name stands. Not here: reading manifests (`formats.manifests.manifest_yaml`), judging queries (the engine).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from odfabric.errors import IncompatibleSchema, InvalidManifest, InvalidQuery, Place
from odfabric.formats.manifests.manifest_documents import Document
from odfabric.formats.manifests.yaml_documents import Path
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import AddPushSource, SetPollingSource, SetTransform, Transform

_QUERY_FIELD = re.compile(r"(?:transform|metadata\[([0-9]+)\]\.preprocess)\.queries\[([0-9]+)\]", re.ASCII)
"""What judges call a statement of the transform, or of what a source does with its data first."""
_EVENT_FIELD = re.compile(r"metadata\[([0-9]+)\](?:\.(\w+))?", re.ASCII)
"""What judges of snapshots call an event of one, and a member of it."""


OF_MANIFESTS = (InvalidQuery, InvalidManifest, IncompatibleSchema)
"""What may be wrong with a manifest that can be read."""


@dataclass(frozen=True, slots=True)
class PlacedSnapshot:
    """A snapshot and where it stands: below the member `top` of a document of `file`."""

    snapshot: DatasetSnapshot
    document: Document
    top: tuple[int, ...]
    file: str | None

    @contextmanager
    def refusals_in_file(self) -> Iterator[None]:
        """Errors raised inside name the place in the file, also within a query."""
        try:
            yield
        except OF_MANIFESTS as error:
            self.put_in_file(error)
            raise

    def put_in_file(self, error: InvalidQuery | InvalidManifest | IncompatibleSchema) -> None:
        """Turn an error's place into that in the file.

        Of a query or, for other errors, of an event.
        """
        if not isinstance(error, InvalidQuery):
            error.place = self._event_in_file(error.place)
            return
        for each in (error, *error.also):
            each.place = self.in_file(each.place)

    def _event_in_file(self, place: Place) -> Place:
        """The place of an event, or of a member of it.

        Of what is said of the whole the line of the dataset's name.

        A place that has a line is reported as it is.
        """
        if place.line is not None:
            return place
        content: Path = (*self.top, "content")
        event = _EVENT_FIELD.fullmatch(place.field or "")
        if event is None:
            return replace(place, file=self.file, line=self.document.locate((*content, "name"))[0], column=None)
        path: Path = (*content, "metadata", int(event[1]))
        line, column = self.document.locate((*path, event[2]), key=True) if event[2] else self.document.locate(path)
        return replace(place, file=self.file, line=line, column=column)

    def in_file(self, place: Place) -> Place:
        """A place within a statement, reported of the file; any other place as it is."""
        found_field = _QUERY_FIELD.fullmatch(place.field or "")
        if found_field is None:
            return place
        source, step = found_field.groups()
        found = self.place_of(int(step), place.line, place.column, source=None if source is None else int(source))
        return replace(
            place,
            file=found.file,
            line=found.line,
            column=found.column,
            query_line=place.line,
            query_column=place.column,
        )

    def place_of(self, step: int, line: int | None, column: int | None, *, source: int | None = None) -> Place:
        """The place in the file for one within a statement of the transform.

        Or of the event that is a source, counting from 0.

        Where it cannot be reported for sure, the line where the statement begins, without a column.
        """
        statement = self._statement(step, source)
        written = None if statement is None else self.document.written(statement[0])
        if statement is None or written is None:
            return Place(file=self.file)
        if line is not None and column is not None:
            found = written.locate(statement[1], line, column)
            if found is not None:
                return Place(file=self.file, line=found[0], column=found[1])
        return Place(file=self.file, line=written.begins()[0])

    def _statement(self, step: int, source: int | None) -> tuple[Path, str] | None:
        """Path and text of a statement."""
        found = self._transform() if source is None else self._preprocess(source)
        if found is None:
            return None
        path, transform = found
        if transform.query is not None:
            return (*path, "query"), transform.query
        queries = transform.queries or ()
        return ((*path, "queries", step, "query"), queries[step].query) if step < len(queries) else None

    def _transform(self) -> tuple[Path, Transform] | None:
        """The transform that counts, the last one."""
        events = self.snapshot.metadata
        for index in reversed(range(len(events))):
            event = events[index]
            if isinstance(event, SetTransform):
                return (*self.top, "content", "metadata", index, "transform"), event.transform
        return None

    def _preprocess(self, index: int) -> tuple[Path, Transform] | None:
        events = self.snapshot.metadata
        event = events[index] if index < len(events) else None
        if not isinstance(event, AddPushSource | SetPollingSource) or event.preprocess is None:
            return None
        return (*self.top, "content", "metadata", index, "preprocess"), event.preprocess

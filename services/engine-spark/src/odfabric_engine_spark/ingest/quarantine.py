"""A file without its wrong rows, and those rows with what is wrong with them.

Owns the second look at a file that was refused, for sources that keep wrong rows in quarantine: rows are looked at one by one, the wrong ones
go to the file of rejected rows, and a copy is written in which their lines are empty. Invariant: lines keep their numbers, so whatever is
said of the copy holds for the file. What is wrong with a file as a whole (its header, an open quote, its encoding) stays an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from odfabric.errors import InvalidData
from odfabric.model.intake import FieldContract
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepNdJson
from odfabric_engine_spark.ingest.encodings import Utf8File, known_encoding
from odfabric_engine_spark.ingest.reader import InputFile, csv_reader, json_reader, texts_of
from odfabric_engine_spark.ingest.rejected_rows import RejectedRows
from odfabric_engine_spark.ingest.wrong_row import WrongRow
from odfabric_engine_spark.spark.calls.call import EngineCall


@dataclass(frozen=True, slots=True)
class _Copies:
    """Where copies go; each has a number, so that one may be made of another."""

    call: EngineCall
    encoding: str
    rejected: RejectedRows

    def of(self, texts: Iterable[Utf8File], wrong: Iterable[WrongRow], number: int) -> tuple[InputFile, ...]:
        """The files without these rows."""
        by_file: dict[Path, list[WrongRow]] = {}
        for row in wrong:
            by_file.setdefault(row.file, []).append(row)
        return tuple(self._copied(text, by_file.get(text.path, []), number) for text in texts)

    def _copied(self, text: Utf8File, wrong: list[WrongRow], number: int) -> InputFile:
        target = self.call.scratch / f"apart-{number}-{text.path.name}"
        remaining = iter(wrong)
        current = next(remaining, None)
        raw: list[str] = []
        with text.text() as lines, target.open("w", encoding=self.encoding, newline="") as out:
            for line, content in enumerate(lines, start=1):
                if current is not None and current.end is not None and line >= current.end:
                    self._reject(current.error, raw)
                    current, raw = next(remaining, None), []
                if current is None or line < current.line:
                    out.write(content)
                    continue
                raw.append(content)
                out.write(content[len(content.rstrip("\r\n")) :])
        if current is not None:
            self._reject(current.error, raw)
        return InputFile(target, text.name)

    def _reject(self, error: InvalidData, raw: list[str]) -> None:
        self.rejected.add(error, "".join(raw).rstrip("\r\n"))


def set_apart(
    step: ReadStep,
    files: tuple[InputFile, ...],
    call: EngineCall,
    rejected: RejectedRows,
    *,
    contract: FieldContract | None,
    preprocessed: bool,
) -> tuple[InputFile, ...]:
    """Copies of the files without unreadable rows, which go to `rejected`.

    Files of other formats stay as they are.

    Raises InvalidData for what is wrong with a file as a whole, LimitExceeded for too many rows.
    """
    limit = rejected.rows_max + 1
    match step:
        case ReadStepNdJson():
            copies = _Copies(call, known_encoding(step.encoding), rejected)
            texts = texts_of(step, files, call)
            return copies.of(
                texts, json_reader(step, call, preprocessed, contract=contract).wrong_lines(texts, limit=limit), 1
            )
        case ReadStepCsv():
            copies = _Copies(call, known_encoding(step.encoding), rejected)
            texts = texts_of(step, files, call)
            first = copies.of(
                texts, csv_reader(step, call, preprocessed, contract=contract).wrong_shapes(texts, limit=limit), 1
            )
            texts = texts_of(step, first, call)
            return copies.of(
                texts, csv_reader(step, call, preprocessed, contract=contract).wrong_values(texts, limit=limit), 2
            )
        case _:
            return files

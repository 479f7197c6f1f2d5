"""Trials of pushes on the real engine agree with the pushes and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from odfabric.domain.ingestion.column_guess import GuessedType, WantedColumn, WantedType, refused_values
from odfabric.formats.files.file_rows import RowBatch
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.people.account import Visibility
from odfabric.model.source import ReadStepCsv
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.draft_source import DraftColumn, Merge, SourceDraft, draft_source
from odfabric.wiring.composed.uploads import UploadVerbs
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.ingest.reading import ddl, refusal, values

pytestmark = pytest.mark.spark

NUMBERS = (
    *(
        "0",
        "-0",
        "+1",
        "007",
        "1.",
        ".5",
        "-.5",
        ".",
        "-",
        "+",
        "1e5",
        "1E-3",
        "e5",
        "1e",
        "1e999",
        "1.5",
        " 1",
        "1 ",
        "1,5",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "0x1F",
        "1d",
        "1f",
        "NaN",
        "-inf",
        "Infinity",
    ),
    *("true", "TRUE", "yes", "٣", "1_000", "--1", "+-1", "1/2"),
)


@pytest.mark.parametrize(
    ("wanted", "declared"), [(WantedType.WHOLE, "BIGINT"), (WantedType.NUMBER, "DOUBLE"), (WantedType.BOOL, "BOOLEAN")]
)
def test_cells_are_refused_that_the_engine_refuses(engine_call: EngineCall, wanted: WantedType, declared: str) -> None:
    column = WantedColumn("a", wanted, is_optional=True)
    refused = {
        each.value for each in refused_values(RowBatch(range(len(NUMBERS)), {"a": NUMBERS}), [column], cells=True)
    }
    step = ReadStepCsv(header=True, schema=ddl(f"a {declared}"))
    taken = "".join(f'"{text}"\n' for text in NUMBERS if text not in refused)
    assert len(values(engine_call, step, f"a\n{taken}".encode())) == len(NUMBERS) - len(refused)
    for text in refused:
        assert str(text)[:20] in refusal(engine_call, step, f'a\n"{text}"\n'.encode()).message


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryNode]:
    folder = tmp_path_factory.mktemp("node")
    engine = EngineUnderTest(folder)
    memory = MemoryNode(folder)
    with_engine = engine.client()
    memory.use_engine(with_engine)
    yield memory
    with_engine.close()
    assert engine.stop() == 0


def result(job: Job) -> dict[str, object]:
    assert job.status is JobStatus.SUCCEEDED, job.error
    found: dict[str, object] = json.loads(job.result or "")
    return found


def committed(memory: MemoryNode, entry: CatalogEntry) -> dict[int, int]:
    """Records of the last slice by operation."""
    operator = memory.node.operator
    (newest,) = memory.node.browsing.blocks(entry, below=None, event_types=frozenset({"AddData"}), limit=1, by=operator)
    assert newest.data is not None
    return dict(memory.node.browsing.operations(entry, newest.data, by=operator))


@pytest.mark.parametrize("merge", list(Merge))
def test_a_push_does_what_its_trial_says(memory: MemoryNode, merge: Merge) -> None:
    verbs, by = UploadVerbs(memory.node), memory.node.operator
    first = b'id,city,at\n1,"Ulm, an der\nDonau",2026-01-01T00:00:00Z\n2,Bonn,2026-01-02T00:00:00Z\n3,Kiel,\n'
    second = b"id,city,at\n2,Bonn,2026-01-02T00:00:00Z\n3,Jena,2026-01-03T00:00:00Z\n4,Hof,2026-01-04T00:00:00Z\n"
    upload = verbs.judged(memory.finish(verbs.upload(iter([first]), file_name="rows.csv", by=by)), by=by)
    assert [each["type"] for each in upload.found["columns"]] == ["Int64", "String", "Timestamp"]
    columns = tuple(DraftColumn(each["name"], GuessedType(each["type"]), True) for each in upload.found["columns"])
    draft = SourceDraft(
        name=parse_dataset_alias(f"by-{merge.value}"),
        shape=FileShape(format=FileFormat.CSV),
        columns=columns,
        event_time="at",
        key=("id",),
        merge=merge,
    )
    tried = result(memory.finish(verbs.try_new(upload, draft_source(draft), shown={}, by=by)))
    entry, push = verbs.make(upload, draft_source(draft), visibility=Visibility.PRIVATE, by=by)
    assert result(memory.finish(push))["rows"] == 3
    assert (tried["rows"], tried["operations"]) == (3, {str(op): n for op, n in committed(memory, entry).items()})
    head = memory.node.datasets.head(entry)
    trial = memory.finish(
        verbs.try_push(entry, iter([second]), file_name="more.csv", source_name=None, media_type=None, by=by)
    )
    assert memory.node.datasets.head(entry) == head
    result(memory.finish(verbs.push_tried(entry, trial, by=by)))
    assert result(trial)["operations"] == {str(op): n for op, n in sorted(committed(memory, entry).items())}

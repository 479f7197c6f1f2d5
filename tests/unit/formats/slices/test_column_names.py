"""Column names of a new dataset: what is refused, and how."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData, InvalidManifest, LimitExceeded
from odfabric.formats.slices.column_names import NAME_LIMIT, NameProblem, name_problems, shown_name
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeStruct,
)
from odfabric.model.vocabulary import DatasetVocabulary

MAX = 30


def field(name: str, kind: DataType | None = None) -> DataField:
    return DataField(name=name, type=kind or DataTypeInt64())


def problems(
    *names: str, known: tuple[str, ...] = (), vocabulary: DatasetVocabulary | None = None
) -> list[NameProblem]:
    columns = DataSchema(fields=tuple(field(name) for name in names))
    return list(name_problems(columns, vocabulary or DatasetVocabulary(), bytes_max=MAX, known=known))


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "Date (UTC)",
        "станція",
        "ціна, грн",
        "a`b",
        "a.b",
        "名前",
        "\u200c",
        "x" * MAX,
        "є" * (MAX // 2),
        "event_time",
    ],
)
def test_names_that_are_kept(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "has no name"),
        ([" \u00a0"], "has no name"),
        (["x" * (MAX + 1)], f"has a name of {MAX + 1} bytes, at most {MAX} are allowed"),
        (["є" * (MAX // 2) + "x"], f"has a name of {MAX + 1} bytes"),
        (["a\nb"], r"`a\u000ab` has the control character U+000A"),
        (["a\x00"], "U+0000"),
        (["a\x9bb"], "U+009B"),
        (["a\u2028b"], "U+2028"),
        (["user\u202egnp.exe"], "U+202E"),
        (["Total", "total"], "Column `total` and column `Total` differ in case only"),
        (["ÄB", "äb"], "differ in case only"),
        (["Event_Time"], "Column `Event_Time` and column `event_time` differ in case only"),
        (["OP"], "differ in case only"),
    ],
)
def test_names_that_are_refused(names: list[str], message: str) -> None:
    (problem,) = problems(*names)
    assert message in problem.message
    assert problem.name == names[-1]
    error = problem.error(bytes_max=MAX)
    assert "preprocess query" in str(error)
    assert error.place.field == shown_name(names[-1])
    assert isinstance(error, LimitExceeded if problem.too_long else InvalidData)
    assert not problem.too_long or (isinstance(error, LimitExceeded) and error.limit == NAME_LIMIT)
    declared = problem.error_of_manifest("metadata[0].read.schema", bytes_max=MAX)
    assert isinstance(declared, LimitExceeded if problem.too_long else InvalidManifest)
    assert declared.place.field == "metadata[0].read.schema"


def test_members_are_columns_of_their_struct() -> None:
    inner = DataTypeStruct(fields=(field("a"), field("A"), field("")))
    columns = DataSchema(fields=(field("s", DataTypeOption(inner=DataTypeList(item_type=inner))),))
    found = list(name_problems(columns, DatasetVocabulary(), bytes_max=MAX))
    assert [problem.message for problem in found] == [
        "Member `s[].A` and member `s[].a` differ in case only",
        "Member 3 has no name",
    ]
    assert list(name_problems(columns, DatasetVocabulary(), bytes_max=MAX, known=["s"])) == []


def test_names_of_a_dataset_that_is_there_are_not_judged_again() -> None:
    assert problems("a", "A", "x" * 99, "b\n", known=("a", "A", "x" * 99, "b\n")) == []
    (problem,) = problems("A", "a", known=("A",))
    assert problem.name == "a"


def test_system_columns_have_the_names_of_the_vocabulary() -> None:
    assert problems("OFFSET", "op", vocabulary=DatasetVocabulary(offset="no", event_time="at")) == []
    (problem,) = problems("AT", vocabulary=DatasetVocabulary(event_time="at"))
    assert problem.name == "AT"
    twice = DatasetVocabulary(offset="t", event_time="T")
    assert [problem.name for problem in problems(vocabulary=twice)] == ["T"]


@given(st.lists(st.text(max_size=40), unique=True, max_size=5))
def test_names_without_a_problem_are_what_they_should_be(names: list[str]) -> None:
    vocabulary = DatasetVocabulary()
    system = {vocabulary.offset, vocabulary.operation_type, vocabulary.system_time, vocabulary.event_time}
    found = problems(*names)
    wrong = {problem.name for problem in found}
    kept = [name for name in names if name not in wrong]
    assert len({name.lower() for name in {*kept, *system}}) == len({*kept, *system})
    for name in kept:
        assert name.strip()
        assert len(name.encode("utf-8", "surrogatepass")) <= MAX
        assert not any(unicodedata.category(sign) in ("Cc", "Cs") for sign in name)
    for problem in found:
        assert len(problem.message) < 1_000
        assert problem.message.isprintable() or all(
            unicodedata.category(sign) not in ("Cc", "Zl", "Zp", "Cs") for sign in problem.message
        )

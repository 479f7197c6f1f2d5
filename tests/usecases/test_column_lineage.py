"""Which columns are behind which, of a derivative, by its transform alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.people.account import DatasetRole
from tests.services.api.people import People
from tests.usecases.test_ask_why import Story, copy_of


@pytest.fixture
def story(tmp_path: Path) -> Story:
    found = Story(tmp_path)
    found.push(found.readings, "Kyiv")
    found.pull(found.copied)
    return found


def test_columns_lead_to_those_of_the_inputs(story: Story) -> None:
    node = story.memory.node
    found = node.provenance.columns(story.copied, by=node.operator)
    assert found.queries == ("SELECT * FROM a",)
    assert ("city", "local/readings", "city", "copied", "IDENTITY") in [
        (one.output_column, str(one.source.alias), one.column, one.role, one.transformation) for one in found.behind
    ]
    assert (found.hidden, found.problem) == (0, None)
    assert node.provenance.columns(story.readings, by=node.operator).behind == ()


def test_an_input_without_columns_is_said(story: Story) -> None:
    node = story.memory.node
    story.memory.add(copy_of("again", "last"))
    last = node.repository.resolve(DatasetAlias(None, Name("last")))
    found = node.provenance.columns(last, by=node.operator)
    assert (found.behind, found.problem) == ((), "the engine does not say what its columns are made of")


def test_columns_of_hidden_inputs_are_not_named(tmp_path: Path) -> None:
    people = People(tmp_path)
    people.add("ann", "readings")
    people.add("ann", "others")
    derived = people.add("ann", "copied", manifest=copy_of("ann/readings", "copied", second="ann/others"))
    people.grant(derived, "*", DatasetRole.READER)
    seen_by_all = people.node.provenance.columns(derived, by=people.subject("pia"))
    assert (seen_by_all.behind, seen_by_all.hidden) == ((), 2)

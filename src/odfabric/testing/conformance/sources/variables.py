"""What Variables promises, as tests.

A subclass gives `variables` and `add_dataset`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.people.variable import Variable
from odfabric.ports.sources.variables import Variables
from odfabric.testing.conformance.examples import NOW

MANY = 100
LATER = Instant(NOW.epoch_ns + 1_000_000_000)
NOBODY = DatasetId(bytes([9]) * 32)


class VariablesContract:
    """Variables of two datasets."""

    @pytest.fixture
    def variables(self) -> Variables:
        raise NotImplementedError

    @pytest.fixture
    def add_dataset(self) -> Callable[[str], DatasetId]:
        """Makes a dataset of that name."""
        raise NotImplementedError

    def test_a_variable_is_kept_and_replaced(
        self, variables: Variables, add_dataset: Callable[[str], DatasetId]
    ) -> None:
        one, two = add_dataset("one"), add_dataset("two")
        variables.set(named(one, "B"), value=b"b", maximum=MANY)
        variables.set(named(one, "A", secret=True), value=b"secret", maximum=MANY)
        assert [(each.name, each.is_secret, each.value) for each in variables.of_dataset(one)] == [
            ("A", True, None),
            ("B", False, "b"),
        ]
        assert variables.value(one, "A") == (named(one, "A", secret=True), b"secret")
        assert variables.value(one, "B") == (named(one, "B"), b"b")
        assert (variables.value(two, "A"), list(variables.of_dataset(two))) == (None, [])
        variables.set(named(one, "A", at=LATER), value="ü".encode(), maximum=MANY)
        assert [(each.name, each.value, each.changed_at) for each in variables.of_dataset(one)] == [
            ("A", "ü", LATER),
            ("B", "b", NOW),
        ]

    def test_a_dataset_has_so_many_and_no_more(
        self, variables: Variables, add_dataset: Callable[[str], DatasetId]
    ) -> None:
        one, two = add_dataset("one"), add_dataset("two")
        variables.set(named(one, "A"), value=b"", maximum=1)
        variables.set(named(one, "A"), value=b"again", maximum=1)
        with pytest.raises(LimitExceeded) as refused:
            variables.set(named(one, "B"), value=b"", maximum=1)
        assert refused.value.limit == "variables_per_dataset_max"
        variables.set(named(two, "B"), value=b"", maximum=1)

    def test_what_is_deleted_is_gone(self, variables: Variables, add_dataset: Callable[[str], DatasetId]) -> None:
        one = add_dataset("one")
        variables.set(named(one, "A"), value=b"", maximum=MANY)
        assert variables.delete(one, "B") is False
        assert variables.delete(one, "A") is True
        assert variables.delete(one, "A") is False
        assert variables.value(one, "A") is None

    def test_no_dataset_has_none(self, variables: Variables) -> None:
        with pytest.raises(NotFound):
            variables.set(named(NOBODY, "A"), value=b"", maximum=MANY)
        assert list(variables.of_dataset(NOBODY)) == []


def named(dataset: DatasetId, name: str, *, secret: bool = False, at: Instant = NOW) -> Variable:
    """A variable without its value."""
    return Variable(dataset=dataset, name=name, is_secret=secret, changed_at=at)

"""Variables and secrets of datasets. They go with their dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.variable import Variable


class Variables(Protocol):
    """Variables by dataset and name.

    Each change is one transaction. Raises Determinate or Indeterminate for outside failures.
    """

    def set(self, variable: Variable, *, value: bytes, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """Make or replace a variable of a dataset that has at most `maximum`.

        `value` counts, not that of the variable.

        Raises NotFound for no dataset, LimitExceeded.
        """

    def of_dataset(self, dataset: DatasetId) -> Sequence[Variable]:
        """All of a dataset in order of names, those that are no secrets with their values."""

    def value(self, dataset: DatasetId, name: str) -> tuple[Variable, bytes] | None:
        """A variable and its value, also that of a secret; None if there is none."""

    def delete(self, dataset: DatasetId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Whether there was one."""

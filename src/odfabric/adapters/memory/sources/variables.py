"""Variables of datasets in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.variable import Variable


class MemoryVariables:
    """A Variables."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def set(self, variable: Variable, *, value: bytes, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        key = variable.dataset, variable.name
        with self._store.lock:
            if variable.dataset not in self._store.datasets:
                raise NotFound("dataset", str(variable.dataset))
            if key not in self._store.variables and len(self.of_dataset(variable.dataset)) >= maximum:
                raise LimitExceeded("too many variables", limit="variables_per_dataset_max", maximum=maximum)
            self._store.variables[key] = replace(variable, value=None), value
            self._store.log(*audit)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Variable]:
        """See the port."""
        with self._store.lock:
            found = [stored for (owner, _), stored in self._store.variables.items() if owner == dataset]
        shown = [each if each.is_secret else replace(each, value=value.decode()) for each, value in found]
        return sorted(shown, key=lambda variable: variable.name)

    def value(self, dataset: DatasetId, name: str) -> tuple[Variable, bytes] | None:
        """See the port."""
        with self._store.lock:
            return self._store.variables.get((dataset, name))

    def delete(self, dataset: DatasetId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        with self._store.lock:
            if self._store.variables.pop((dataset, name), None) is None:
                return False
            self._store.log(*audit)
            return True


def drop_variables(store: MemoryStore, dataset: DatasetId) -> None:
    """Forget the variables of a dataset that goes. The lock must be held."""
    store.variables = {key: stored for key, stored in store.variables.items() if key[0] != dataset}

"""Variables of datasets whose secrets are stored sealed.

What is no secret is stored as it is. Source: ADR 0048.
"""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.variable import Variable
from odfabric.ports.node.sealing import Sealing, variable_context, variable_key
from odfabric.ports.sources.variables import Variables


class SealedVariables:
    """A Variables over one that stores what it is given."""

    def __init__(self, local: Variables, sealing: Sealing) -> None:
        self._local = local
        self._sealing = sealing

    def set(self, variable: Variable, *, value: bytes, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        if not variable.is_secret:
            self._local.set(variable, value=value, maximum=maximum, audit=audit)
            return
        with self._sealing.kept():
            sealed = self._sealing.seal(value, context=_context(variable))
            self._local.set(variable, value=sealed, maximum=maximum, audit=audit)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Variable]:
        """See the port."""
        return self._local.of_dataset(dataset)

    def value(self, dataset: DatasetId, name: str) -> tuple[Variable, bytes] | None:
        """See the port."""
        with self._sealing.kept():
            found = self._local.value(dataset, name)
        if found is None or not found[0].is_secret:
            return found
        variable, sealed = found
        return variable, self._sealing.open(sealed, context=_context(variable))

    def delete(self, dataset: DatasetId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        return self._local.delete(dataset, name, audit=audit)


def _context(variable: Variable) -> bytes:
    return variable_context(variable_key(variable.dataset, variable.name))

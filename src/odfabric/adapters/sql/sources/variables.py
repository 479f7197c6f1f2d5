"""Variables of datasets in SQL.

Invariant: the row of the dataset is held before it is counted how many it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Row, delete, func, literal, select, update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.variables import variables
from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.variable import Variable
from odfabric.ports.node.sealing import variable_key


class SqlVariables:
    """A Variables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, variable: Variable, *, value: bytes, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        key = variable_key(variable.dataset, variable.name)
        values = {
            "plain": None if variable.is_secret else value.decode(),
            "sealed": value if variable.is_secret else None,
            "changed_at": variable.changed_at,
        }
        held = select(literal(1)).where(datasets.c.id == variable.dataset).with_for_update(key_share=True)
        counted = select(func.count()).where(variables.c.dataset_id == variable.dataset)
        with self._database.write() as connection:
            if connection.execute(held).one_or_none() is None:
                raise NotFound("dataset", str(variable.dataset))
            changed = connection.execute(update(variables).where(variables.c.id == key).values(**values)).rowcount
            if not changed:
                if connection.execute(counted).scalar_one() >= maximum:
                    raise LimitExceeded("too many variables", limit="variables_per_dataset_max", maximum=maximum)
                named = {"id": key, "dataset_id": variable.dataset, "name": variable.name}
                insert_new(connection, variables, {**named, **values})
            insert_audit(connection, audit)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Variable]:
        """See the port."""
        wanted = select(variables).where(variables.c.dataset_id == dataset)
        with self._database.read() as connection:
            found = [_variable(row) for row in connection.execute(wanted)]
        return sorted(found, key=lambda variable: variable.name)

    def value(self, dataset: DatasetId, name: str) -> tuple[Variable, bytes] | None:
        """See the port."""
        wanted = select(variables).where(variables.c.id == variable_key(dataset, name))
        with self._database.read() as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None:
            return None
        value = row.sealed if row.sealed is not None else row.plain.encode()
        return _variable(row, shown=False), bytes(value)

    def delete(self, dataset: DatasetId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        gone = delete(variables).where(variables.c.id == variable_key(dataset, name))
        with self._database.write() as connection:
            if not connection.execute(gone).rowcount:
                return False
            insert_audit(connection, audit)
            return True


def _variable(row: Row[tuple[object, ...]], *, shown: bool = True) -> Variable:
    return Variable(
        dataset=row.dataset_id,
        name=row.name,
        is_secret=row.sealed is not None,
        changed_at=row.changed_at,
        value=row.plain if shown else None,
    )

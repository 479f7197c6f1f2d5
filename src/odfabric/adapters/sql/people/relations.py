"""Memberships and grants in SQL, and which datasets somebody may read.

Owns the one table of relations. Invariant: a change is one statement with the role and the version that were read in its condition. Rows
refer to nothing by constraint, for objects are of two kinds: anyone who deletes an account or a dataset deletes them in the same
transaction (`remove_relations_*`), and anyone who adds one holds what it is about. Rows of datasets are held before those of accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    true,
    type_coerce,
    update,
)

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.people.account_rows import change_admins_alone, hold_account
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.people import accounts, relations
from odfabric.domain.people.access import LOCAL_ACCOUNT, SYSTEM_ACCOUNT, Viewer
from odfabric.errors import NotFound
from odfabric.formats.identifiers.did import dataset_id_from_bytes, parse_account_id
from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.people.account import (
    EVERYONE,
    AccountKind,
    DatasetRole,
    Grant,
    Grantee,
    Membership,
    OrganisationRole,
)
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.people.accounts import (
    changed_meanwhile,
    last_admin_of_organisation,
    pair_of_grant,
    pair_of_membership,
)

_DATASET, _ACCOUNT = "dataset:", "account:"
_ADMIN = OrganisationRole.ADMIN.value
_DATASETS_AT_ONCE = 500


class SqlRelations:
    """A Relations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def memberships(self, member: AccountId) -> Sequence[Membership]:
        """See the port."""
        wanted = select(relations).where(relations.c.subject == str(member), _is_below(_ACCOUNT))
        with self._database.read() as connection:
            return [_membership(row) for row in connection.execute(wanted.order_by(relations.c.object))]

    def membership(self, organisation: AccountId, member: AccountId) -> Membership | None:
        """See the port."""
        found = self._one(_organisation(organisation), member)
        return _membership(found) if found else None

    def members(self, organisation: AccountId, *, limit: int) -> Sequence[Membership]:
        """See the port."""
        return [_membership(row) for row in self._of_object(_organisation(organisation), limit)]

    def change_membership(
        self, before: Membership | None, after: Membership | None, *, audit: AuditEntry
    ) -> Membership | None:
        """See the port."""
        organisation, member = pair_of_membership(before, after)
        with self._database.write() as connection:
            change_admins_alone(connection)
            hold_account(connection, organisation, kind=AccountKind.ORGANISATION)
            hold_account(connection, member)
            version = _change(
                connection,
                _organisation(organisation),
                member,
                before=(before.role.value, before.version) if before else None,
                after=after.role.value if after else None,
            )
            if before is not None and before.role is OrganisationRole.ADMIN:
                check_has_admin(connection, organisation)
            insert_audit(connection, [audit])
        return replace(after, version=version) if after else None

    def grants(self, dataset: DatasetId, *, limit: int) -> Sequence[Grant]:
        """See the port."""
        return [_grant(row) for row in self._of_object(_dataset(dataset), limit)]

    def grant(self, dataset: DatasetId, grantee: Grantee) -> Grant | None:
        """See the port."""
        found = self._one(_dataset(dataset), grantee)
        return _grant(found) if found else None

    def granted(
        self, datasets: Collection[DatasetId], grantees: Collection[Grantee]
    ) -> Mapping[DatasetId, Sequence[Grant]]:
        """See the port."""
        found: dict[DatasetId, list[Grant]] = {}
        objects = sorted({_dataset(each) for each in datasets})
        to = relations.c.subject.in_(sorted(str(grantee) for grantee in grantees))
        with self._database.read() as connection:
            for start in range(0, len(objects), _DATASETS_AT_ONCE):
                portion = objects[start : start + _DATASETS_AT_ONCE]
                wanted = select(relations).where(relations.c.object.in_(portion), to)
                for row in connection.execute(wanted.order_by(relations.c.object, relations.c.subject)):
                    grant = _grant(row)
                    found.setdefault(grant.dataset, []).append(grant)
        return found

    def change_grant(self, before: Grant | None, after: Grant | None, *, audit: AuditEntry) -> Grant | None:
        """See the port."""
        dataset, grantee = pair_of_grant(before, after)
        with self._database.write() as connection:
            _hold_dataset(connection, dataset)
            if grantee != EVERYONE:
                hold_account(connection, grantee)
            version = _change(
                connection,
                _dataset(dataset),
                grantee,
                before=(before.role.value, before.version) if before else None,
                after=after.role.value if after else None,
            )
            insert_audit(connection, [audit])
        return replace(after, version=version) if after else None

    def _one(self, of: str, subject: Grantee) -> Row[tuple[object, ...]] | None:
        wanted = select(relations).where(_is(of, subject))
        with self._database.read() as connection:
            return connection.execute(wanted).one_or_none()

    def _of_object(self, of: str, limit: int) -> Sequence[Row[tuple[object, ...]]]:
        wanted = select(relations).where(relations.c.object == of).order_by(relations.c.subject).limit(limit)
        with self._database.read() as connection:
            return connection.execute(wanted).all()


def visible_to(viewer: Viewer) -> ColumnElement[bool]:
    """The condition on rows of `datasets` that equals `Viewer.admits`.

    Datasets of an owner are a stretch of the index on their names, granted ones are found by the index on subjects. A database may join
    the two, or go through the names in order and stop when the page is full.
    """
    owned = datasets.c.account_folded.in_(sorted(_folded(viewer.owners)))
    mine = true() if viewer.everything else or_(owned, _granted_to(viewer.grantees | {EVERYONE}))
    if viewer.only is None:
        visible = mine
    else:
        visible = or_(_granted_to({EVERYONE}), and_(datasets.c.id.in_(sorted(viewer.only)), mine))
    return or_(visible, datasets.c.account_folded != SYSTEM_ACCOUNT.folded) if viewer.open_node else visible


def insert_grants(connection: Connection, grants: Iterable[Grant]) -> None:
    """The first grants on a dataset, in the transaction that makes it.

    Those to accounts that are gone are left out.
    """
    for grant in grants:
        try:
            if grant.grantee != EVERYONE:
                hold_account(connection, grant.grantee)
        except NotFound:
            continue
        _change(connection, _dataset(grant.dataset), grant.grantee, before=None, after=grant.role.value)


def insert_founder(connection: Connection, organisation: AccountId, founder: AccountId) -> None:
    """Its first admin, in the transaction that makes an organisation. Raises NotFound."""
    hold_account(connection, founder, kind=AccountKind.USER)
    _change(connection, _organisation(organisation), founder, before=None, after=_ADMIN)


def remove_relations_of_dataset(connection: Connection, dataset: DatasetId) -> None:
    """Take back all grants on a dataset whose row was just deleted."""
    connection.execute(delete(relations).where(relations.c.object == _dataset(dataset)))


def remove_relations_of_account(connection: Connection, account: AccountId) -> None:
    """Take back the grants, memberships and members of an account that goes away.

    Raises LastAdmin if it is the only admin of an organisation. No other transaction may change admins meanwhile.
    """
    given = delete(relations).where(relations.c.subject == str(account))
    rows = connection.execute(given.returning(relations.c.object, relations.c.role)).all()
    connection.execute(delete(relations).where(relations.c.object == _organisation(account)))
    for row in sorted(rows):
        if row.object.startswith(_ACCOUNT) and row.role == _ADMIN:
            check_has_admin(connection, parse_account_id(row.object.removeprefix(_ACCOUNT)))


def check_has_admin(connection: Connection, organisation: AccountId) -> None:
    """Raises LastAdmin if the organisation has no admin."""
    admins = select(literal(1)).where(relations.c.object == _organisation(organisation), relations.c.role == _ADMIN)
    if connection.execute(admins.limit(1)).first() is None:
        named = select(accounts.c.name).where(accounts.c.id == organisation)
        raise last_admin_of_organisation(connection.execute(named).scalar_one())


def _change(
    connection: Connection, of: str, subject: Grantee, *, before: tuple[str, int] | None, after: str | None
) -> int:
    """The compare-and-set of a relation; returns the new version. Raises Changed.

    `before` is the role and its version, None for no relation; `after` None removes it.
    """
    if before is None:
        values = {"object": of, "subject": str(subject), "role": after, "version": 1}
        if not insert_new(connection, relations, values):
            raise changed_meanwhile(f"the role of {subject}")
        return 1
    role, version = before
    held = and_(_is(of, subject), relations.c.role == role, relations.c.version == version)
    if after is None:
        rows = connection.execute(delete(relations).where(held)).rowcount
    else:
        rows = connection.execute(update(relations).where(held).values(role=after, version=version + 1)).rowcount
    if rows == 0:
        raise changed_meanwhile(f"the role of {subject}")
    return version + 1


def _hold_dataset(connection: Connection, dataset: DatasetId) -> None:
    held = select(literal(1)).where(datasets.c.id == dataset).with_for_update(read=True, key_share=True)
    if connection.execute(held).one_or_none() is None:
        raise NotFound("dataset", str(dataset))


def _granted_to(grantees: Iterable[Grantee]) -> ColumnElement[bool]:
    """Whether a dataset is granted to one of them.

    Their ids are one stretch of the index on subjects for each grantee, read once and not once for each dataset.
    """
    granted = select(func.substr(relations.c.object, len(_DATASET) + 1)).where(
        relations.c.subject.in_(sorted(str(grantee) for grantee in grantees)),
        _is_below(_DATASET),
    )
    return type_coerce(datasets.c.id, String).in_(granted)


def _is_below(kind: str) -> ColumnElement[bool]:
    """Whether the object is of a kind: up to the character after the colon."""
    return (relations.c.object >= kind) & (relations.c.object < kind.replace(":", ";"))


def _folded(owners: Iterable[Name]) -> set[str]:
    """Rows of datasets that were named without an account are those of the local one."""
    names = {owner.folded for owner in owners}
    return names | {""} if LOCAL_ACCOUNT.folded in names else names


def _is(of: str, subject: Grantee) -> ColumnElement[bool]:
    return and_(relations.c.object == of, relations.c.subject == str(subject))


def _dataset(dataset: DatasetId) -> str:
    return _DATASET + dataset.multibase


def _organisation(organisation: AccountId) -> str:
    return f"{_ACCOUNT}{organisation}"


def _membership(row: Row[tuple[object, ...]]) -> Membership:
    return Membership(
        organisation=parse_account_id(row.object.removeprefix(_ACCOUNT)),
        member=parse_account_id(row.subject),
        role=OrganisationRole(row.role),
        version=row.version,
    )


def _grant(row: Row[tuple[object, ...]]) -> Grant:
    multibase = row.object.removeprefix(_DATASET)
    return Grant(
        dataset=dataset_id_from_bytes(bytes.fromhex(multibase[1:])),
        grantee=EVERYONE if row.subject == EVERYONE else parse_account_id(row.subject),
        role=DatasetRole(row.role),
        version=row.version,
    )

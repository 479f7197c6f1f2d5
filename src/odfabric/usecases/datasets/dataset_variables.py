"""Variables and secrets of a dataset, which its source's templates name.

Owns who may see and change them, and where a template finds a value: at the dataset, then in those variables of the process that the operator
has named. Invariant: the value of a secret leaves the node in a request of its source and nowhere else; who may change the source may have
it sent anywhere, so the right to change both is one. Not here: the grammar of templates (`domain.sources.source_templates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.domain.sources.source_templates import (
    SECRET_CHARACTERS_MIN,
    VARIABLE_NAME,
    VARIABLE_NAME_CHARACTERS_MAX,
    Lookup,
    Value,
)
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.model.people.variable import Variable
from odfabric.ports.node.clock import Clock
from odfabric.ports.sources.variables import Variables
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableVerbs:
    """Verbs for one subject each.

    `environment` are values that the operator shares with the sources of all datasets.
    """

    variables: Variables
    access: Access
    clock: Clock
    per_dataset_max: int
    bytes_max: int
    environment: Mapping[str, str]

    def listed(self, entry: CatalogEntry, *, by: Subject) -> Sequence[Variable]:
        """All in order of names, secrets without their values.

        Raises NotFound, AccessDenied.
        """
        self.access.require(by, Action.WRITE, entry)
        return self.variables.of_dataset(entry.id)

    def set(self, entry: CatalogEntry, name: str, value: str, *, secret: bool, by: Subject) -> Variable:
        """Make or replace a variable.

        Raises NotFound, AccessDenied, InvalidRequest, LimitExceeded.
        """
        self.access.require(by, Action.WRITE, entry)
        if entry.remote_url is not None:
            raise InvalidRequest(f"{entry.alias} is a copy and polls nothing", hint="set it where the data is polled")
        check_name(name)
        data = self._checked(value, secret=secret)
        made = Variable(dataset=entry.id, name=name, is_secret=secret, changed_at=self.clock.now())
        audit = [self._entry(entry, name, by, change="secret set" if secret else "variable set")]
        self.variables.set(made, value=data, maximum=self.per_dataset_max, audit=audit)
        return Variable(
            dataset=entry.id,
            name=name,
            is_secret=secret,
            changed_at=made.changed_at,
            value=None if secret else value,
        )

    def remove(self, entry: CatalogEntry, name: str, *, by: Subject) -> None:
        """Raises NotFound, also for a variable that is not there, AccessDenied."""
        self.access.require(by, Action.WRITE, entry)
        audit = [self._entry(entry, name, by, change="variable removed")]
        if not self.variables.delete(entry.id, name, audit=audit):
            raise NotFound("variable", name)

    def lookup(self, dataset: DatasetId) -> Lookup:
        """What the templates of a dataset's source find.

        Values of the process count as secrets.
        """

        def find(name: str) -> Value | None:
            found = self.variables.value(dataset, name)
            if found is not None:
                variable, value = found
                return Value(value.decode(), secret=variable.is_secret)
            shared = self.environment.get(name)
            return None if shared is None else Value(shared, secret=True)

        return find

    def _checked(self, value: str, *, secret: bool) -> bytes:
        place = Place(field="value")
        data = value.encode()
        if len(data) > self.bytes_max:
            raise LimitExceeded(
                "the value is too long", limit="variable_bytes_max", maximum=self.bytes_max, place=place
            )
        if any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
            raise InvalidRequest("a value has no control characters", place=place, hint="one line, without tabs")
        if secret and len(value) < SECRET_CHARACTERS_MIN:
            raise InvalidRequest(
                f"a secret has at least {SECRET_CHARACTERS_MIN} characters: a shorter one cannot be kept out of messages",
                place=place,
                hint="set it as a plain variable if it is no secret",
            )
        return data

    def _entry(self, entry: CatalogEntry, name: str, by: Subject, *, change: str) -> AuditEntry:
        return AuditEntry(
            kind=AuditKind.SETTING_CHANGED,
            actor=by.actor,
            at=self.clock.now(),
            target=str(entry.alias),
            dataset=entry.id,
            detail={"variable": name, "change": change},
        )


def check_name(name: str) -> None:
    """Raises InvalidRequest for a name that no template can have."""
    if len(name) > VARIABLE_NAME_CHARACTERS_MAX or not VARIABLE_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:100]!r} is no name of a variable",
            place=Place(field="name"),
            hint=f"letters, digits and _, no digit first, at most {VARIABLE_NAME_CHARACTERS_MAX}, such as API_TOKEN",
        )


def variable_value(variable: Variable) -> dict[str, object]:
    """As JSON; a secret has no `value`."""
    value = {} if variable.is_secret else {"value": variable.value}
    return {"name": variable.name, "secret": variable.is_secret, **value, "changedAt": str(variable.changed_at)}

"""Create a dataset from a snapshot, and delete one.

Invariant: a dataset exists from the moment its head is set, with all events of its snapshot, or not at all. A transform that the
engine would refuse is refused here already, as far as the columns of its inputs are known or follow from what these declare, and so is
a source whose declared columns no push could ever fill, or whose query cannot read them.
"""

from __future__ import annotations

from odfabric.domain.chain.append import fold_blocks
from odfabric.domain.chain.snapshot import plan_creation
from odfabric.domain.chain.state import ChainState
from odfabric.domain.people.access import Action, Subject, owner_of
from odfabric.domain.sources.runnable_sources import PermittedSources
from odfabric.domain.sources.source_evolution import check_runnable, check_sources
from odfabric.domain.transform.transform_plan import transform_inputs
from odfabric.errors import AlreadyExists, InUse, NotFound
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant, Visibility
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.derivatives import inputs_at, possible_readers
from odfabric.usecases.ingestion.judge_source import SourceJudge
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import AccountQuotas
from odfabric.usecases.transform.expected_columns import ExpectedColumns
from odfabric.usecases.transform.judge_transform import refuse_problems, validate_request


def create_dataset(
    snapshot: DatasetSnapshot,
    *,
    subject: Subject,
    access: Access,
    quotas: AccountQuotas,
    visibility: Visibility,
    repository: Repository,
    commits: Commits,
    keys: DatasetKeys,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    column_name_bytes_max: int,
    permitted: PermittedSources,
) -> tuple[CatalogEntry, Multihash]:
    """The new entry and its head.

    `repository` is as the subject sees it: a transform reads only what the subject may read. Raises InvalidManifest,
    IncompatibleSchema, InvalidQuery, AlreadyExists, AccessDenied, LimitExceeded, NotFound for an account that is not there or an input that goes meanwhile.
    """
    alias = free_alias(snapshot.name, subject, access=access, repository=repository)
    quotas.check_new_dataset(owner_of(alias))
    key = keys.create()
    now = clock.now().truncated_to_millis()
    dataset_id = DatasetId(key.public)
    blocks = plan_creation(
        snapshot, dataset_id=dataset_id, system_time=now, resolve=lambda text: _resolve_input(text, repository)
    )
    state = fold_blocks(ChainState.empty(), blocks)
    check_runnable(snapshot, permitted)
    check_sources(snapshot, state.vocabulary, name_bytes_max=column_name_bytes_max)
    SourceJudge(state, now, engine, exchange).check_queries(snapshot)
    inputs = _check_transform(state, ExpectedColumns(repository, engine, exchange, now))
    entry = CatalogEntry(id=dataset_id, alias=alias, kind=snapshot.kind, created_at=now, sealed_key=key.sealed_private)
    grants = [Grant(dataset=dataset_id, grantee=EVERYONE, role=DatasetRole.READER)]
    committed = commits.create(
        entry,
        blocks,
        inputs=inputs,
        grants=grants if visibility is Visibility.PUBLIC else (),
        by=subject.actor,
    )
    return entry, committed.head


def free_alias(name: DatasetAlias, subject: Subject, *, access: Access, repository: Repository) -> DatasetAlias:
    """The alias of a dataset to be made, if no dataset has it.

    Raises AlreadyExists and as `creatable_alias`.
    """
    alias = creatable_alias(name, subject, access=access, repository=repository)
    if (there := repository.find(alias)) is not None:
        # Names do not differ by case: it may be spelt otherwise.
        raise AlreadyExists(
            f"a dataset named {there.alias} exists", hint="choose another name, or delete that one first"
        )
    return alias


def creatable_alias(name: DatasetAlias, subject: Subject, *, access: Access, repository: Repository) -> DatasetAlias:
    """The alias of a new dataset, under the subject's own account by default.

    Raises AccessDenied for the account of somebody else, whether there is one or not, Unauthenticated; NotFound, to an admin, for none.
    """
    alias = DatasetAlias(name.account or repository.account, name.name)
    owner = owner_of(alias)
    access.require_here(subject, Action.CREATE, under=owner, shown=str(alias))
    if access.accounts.by_name(owner) is None:
        raise NotFound("account", str(owner), hint="make it first, or name another one")
    return alias


def delete_dataset(
    entry: CatalogEntry,
    *,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
    if_match: Multihash | None = None,
) -> None:
    """Delete a dataset that no derivative dataset reads which the subject may read.

    Raises InUse naming those that do.

    `repository` is as the subject sees it: anyone who derives something private from a dataset neither shows nor keeps it.
    Raises NotFound, AccessDenied.

    Who begins to read it meanwhile waits, and then finds that it is gone (`usecases.chain.commit`); one of a node that shares the objects
    and no locks may begin between the look and the deletion.
    """
    access.require(subject, Action.DELETE, entry)
    looked_at: dict[DatasetId, Multihash] = {}
    _refuse_readers(entry, looked_at, repository)
    # All chains have been read by now, so that others do not wait for long.
    with commits.inputs_kept():
        _refuse_readers(entry, looked_at, repository)
        commits.remove(entry.id, if_match=if_match, by=subject.actor)


def _resolve_input(text: str, repository: Repository) -> DatasetId | None:
    entry = repository.find(parse_dataset_ref(text))
    return entry.id if entry else None


def _check_transform(state: ChainState, expected: ExpectedColumns) -> tuple[DatasetId, ...]:
    """The inputs, none if there is no transform. Raises InvalidQuery."""
    if state.transform is None:
        return ()
    request = validate_request(
        state.transform.event, state.vocabulary, repository=expected.repository, expected=expected.of
    )
    refuse_problems(expected.engine.validate_query(request))
    return transform_inputs(state)


def _refuse_readers(entry: CatalogEntry, looked_at: dict[DatasetId, Multihash], repository: Repository) -> None:
    """Raises InUse.

    `looked_at` are heads of datasets that do not read it, and is added to.
    """
    readers = []
    for other in possible_readers(entry.id, repository):
        head = repository.chains.head(other.id)
        if head is None or looked_at.get(other.id) == head.hash or other.id == entry.id:
            continue  # a copy may name itself, and goes all the same
        if entry.id in inputs_at(other, head, repository):
            readers.append(other)
        looked_at[other.id] = head.hash
    if readers:
        names = tuple(str(other.alias) for other in readers)
        raise InUse(f"{entry.alias} is an input of {', '.join(names)}", users=names, hint="delete those first")

"""Create a dataset from a snapshot, and delete one.

Invariant: a dataset exists from the moment its head is set, with all events of its snapshot, or not at all. A transform that the
engine would refuse is refused here already, as far as the columns of its inputs are known or follow from what these declare, and so is
a source whose declared columns no push could ever fill, or whose query cannot read them.
"""

from __future__ import annotations

from odfabric.domain.access import AccessPolicy, Action, Subject
from odfabric.domain.chain.append import fold_blocks
from odfabric.domain.chain.state import ChainState
from odfabric.domain.names import check_account_name
from odfabric.domain.snapshot import plan_creation
from odfabric.domain.source_evolution import check_sources
from odfabric.domain.transform_plan import transform_inputs
from odfabric.errors import AccessDenied, AlreadyExists, InUse, NotFound
from odfabric.formats.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.ports.clock import Clock
from odfabric.ports.dataset_keys import DatasetKeys
from odfabric.ports.engine import Engine
from odfabric.ports.exchange import Exchange
from odfabric.usecases.commit import Commits
from odfabric.usecases.expected_columns import ExpectedColumns
from odfabric.usecases.judge_source import SourceJudge
from odfabric.usecases.judge_transform import refuse_problems, validate_request
from odfabric.usecases.repository import Repository


def create_dataset(
    snapshot: DatasetSnapshot,
    *,
    subject: Subject,
    policy: AccessPolicy,
    repository: Repository,
    commits: Commits,
    keys: DatasetKeys,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    column_name_bytes_max: int,
) -> tuple[CatalogEntry, Multihash]:
    """The new entry and its head.

    Raises InvalidManifest, IncompatibleSchema, InvalidQuery, AlreadyExists, AccessDenied, InvalidName, LimitExceeded, NotFound for an input that goes meanwhile.
    """
    alias = DatasetAlias(snapshot.name.account or repository.account, snapshot.name.name)
    account = alias.account or repository.account
    check_account_name(account)
    policy.require(subject, Action.CREATE, dataset=str(alias))
    if account != repository.account:
        raise AccessDenied(
            f"datasets of {account} are not created here", hint=f"this node's account is {repository.account}"
        )
    if (there := repository.find(alias)) is not None:
        # Names do not differ by case: it may be spelt otherwise.
        raise AlreadyExists(
            f"a dataset named {there.alias} exists", hint="choose another name, or delete that one first"
        )
    key = keys.create()
    now = clock.now().truncated_to_millis()
    dataset_id = DatasetId(key.public)
    blocks = plan_creation(
        snapshot, dataset_id=dataset_id, system_time=now, resolve=lambda text: _resolve_input(text, repository)
    )
    state = fold_blocks(ChainState.empty(), blocks)
    check_sources(snapshot, state.vocabulary, name_bytes_max=column_name_bytes_max)
    SourceJudge(state, now, engine, exchange).check_queries(snapshot)
    inputs = _check_transform(state, ExpectedColumns(repository, engine, exchange, now))
    entry = CatalogEntry(id=dataset_id, alias=alias, kind=snapshot.kind, created_at=now, sealed_key=key.sealed_private)
    return entry, commits.create(entry, blocks, inputs=inputs).head


def delete_dataset(
    entry: CatalogEntry, *, repository: Repository, commits: Commits, if_match: Multihash | None = None
) -> None:
    """Delete a dataset that no derivative dataset of this node reads. Raises InUse naming those that do.

    Who begins to read it meanwhile waits, and then finds that it is gone (`usecases.commit`); one of a node that shares the objects
    and no locks may begin between the look and the deletion.
    """
    looked_at: dict[DatasetId, Multihash] = {}
    _refuse_readers(entry, looked_at, repository)
    # All chains have been read by now, so that others do not wait for long.
    with commits.inputs_kept():
        _refuse_readers(entry, looked_at, repository)
        commits.remove(entry.id, if_match=if_match)


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
    """Raises InUse. `looked_at` are heads of datasets that do not read it, and is added to."""
    readers = []
    for other in _all_entries(repository):
        head = repository.chains.head(other.id) if other.kind is DatasetKind.DERIVATIVE else None
        if head is None or looked_at.get(other.id) == head.hash or other.id == entry.id:
            continue  # a copy may name itself, and goes all the same
        if entry.id in _inputs_of(other, head, repository):
            readers.append(other)
        looked_at[other.id] = head.hash
    if readers:
        names = tuple(str(other.alias) for other in readers)
        raise InUse(f"{entry.alias} is an input of {', '.join(names)}", users=names, hint="delete those first")


def _all_entries(repository: Repository) -> list[CatalogEntry]:
    entries: list[CatalogEntry] = []
    after: DatasetAlias | None = None
    while page := repository.catalog.page(after=after, limit=1000):
        entries.extend(page)
        after = page[-1].alias
    return entries


def _inputs_of(entry: CatalogEntry, head: Head, repository: Repository) -> set[DatasetId]:
    try:
        state = repository.state(entry.id, head.hash)
    except NotFound:
        return set()  # deleted meanwhile
    if state.transform is None:
        return set()
    refs = (parse_dataset_ref(declared.dataset_ref) for declared in state.transform.event.inputs)
    return {ref for ref in refs if isinstance(ref, DatasetId)}

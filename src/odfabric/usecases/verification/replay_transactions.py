"""Run a derivative's transactions again on this engine; keep which it reproduces.

Before an engine is given up the next one is tried on what the old one made. Checkpoints and slices that were lost or damaged come back on
the way, where the engine makes them to the byte. Invariant: the chain stays as it is, and an object has the hash that it is named by. Not here: the records
(`usecases.transform.engine_records`), whether a dataset is what it claims to be
(`usecases.verification.verify_dataset`). Source: docs/engine.md#operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.verify import verify_replay
from odfabric.domain.chain.walk import ChainLink, walk
from odfabric.domain.transform.transform_plan import InputNeverPulled, executed, plan_replay, replay_inputs
from odfabric.errors import InvalidRequest, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import checkpoint_key, data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineInfo, EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DatasetKind, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import describe_slice, put_back
from odfabric.usecases.transform.divide_transform import input_at
from odfabric.usecases.transform.engine_records import EngineOutcome, SignRecord, record, unsigned
from odfabric.usecases.transform.judge_transform import change_of
from odfabric.usecases.transform.run_transform import ExecutedTransform, execute_plan


@dataclass(frozen=True, slots=True)
class ReplayedTransaction:
    """A block and whether the engine gave its rows again; `message` says what differs.

    `restored`: objects that were put back.
    """

    block: Multihash
    reproduced: bool
    message: str | None = None
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayPorts:
    """What a replay works with."""

    repository: Repository
    engine: Engine
    exchange: Exchange
    objects: ObjectStore
    clock: Clock
    sign: SignRecord = unsigned


def replay_transactions(
    entry: CatalogEntry,
    *,
    ports: ReplayPorts,
    blocks_max: int,
    digest: str | None = None,
    listener: Callable[[EngineProgress], None] = lambda _: None,
) -> tuple[EngineInfo, list[ReplayedTransaction]]:
    """Replay every transaction, oldest first, and record the outcomes.

    One that differs does not end the run.

    `digest` is what the digest of the engine here must begin with. Raises InvalidRequest for a root dataset or another engine,
    NotFound for an input that is not here, Determinate if the engine is away.
    """
    if entry.kind is not DatasetKind.DERIVATIVE:
        raise InvalidRequest(f"{entry.alias} is no derivative dataset", hint="only those have transactions")
    info = ports.engine.info()
    if digest and not info.digest.startswith(digest):
        raise InvalidRequest(
            f"the engine here is {info.name} {info.version} with the digest {info.digest}",
            hint="ODF_ENGINE_ADDRESS and ODF_ENGINE_TOKEN name another one",
        )
    blocks = ports.repository.blocks(entry.id)
    links = list(walk(blocks, ports.repository.head(entry.id).hash, blocks_max=blocks_max))[::-1]
    state, done = ChainState.empty(), []
    for number, link in enumerate(links):
        if isinstance(link.block.event, ExecuteTransform):
            listener(EngineProgress(stage="replay", done=number, total=len(links)))
            found = _replayed(state, link, link.block.event, ports=ports, blocks_max=blocks_max, listener=listener)
            outcome = EngineOutcome.REPRODUCES if found.reproduced else EngineOutcome.DIFFERS
            record(
                *(entry.id, found.block, info.identity, outcome),
                objects=ports.objects,
                message=found.message,
                at=ports.clock.now(),
                sign=ports.sign,
            )
            done.append(found)
        state = apply(state, link.hash, link.block)
    return info, done


def _replayed(
    state: ChainState,
    link: ChainLink,
    event: ExecuteTransform,
    *,
    ports: ReplayPorts,
    blocks_max: int,
    listener: Callable[[EngineProgress], None],
) -> ReplayedTransaction:
    repository, dataset = ports.repository, state.dataset_id
    inputs = {name: input_at(name, head, repository) for name, head in replay_inputs(event).items()}
    try:
        change = change_of(state, inputs, blocks=repository.blocks(dataset), engine=ports.engine, blocks_max=blocks_max)
        plan = plan_replay(
            state, event, inputs, system_time=link.block.system_time, blocks_max=blocks_max, change=change
        )
        if isinstance(plan, InputNeverPulled):
            return ReplayedTransaction(link.hash, False, f"input {plan.dataset_id} had no schema at that time")
        checkpoints = [plan.prev_checkpoint.physical_hash] if plan.prev_checkpoint else []
        with ports.exchange.session() as folder:
            replayed = execute_plan(
                plan,
                checkpoints,
                folder,
                progress=listener,
                repository=repository,
                engine=ports.engine,
                exchange=ports.exchange,
            )
            offsets = replayed.result.offsets
            data = describe_slice(replayed.data_path, offsets) if offsets else None
            restored = tuple(_restored(dataset, event, replayed, data, ports.objects))
    except OdfError as error:
        if error.code in ("unavailable", "outcome-unknown") or isinstance(error, NotFound):
            raise
        return ReplayedTransaction(link.hash, False, str(error))
    actual = executed(plan, new_data=data, new_checkpoint=None, watermark=replayed.result.watermark)
    problem = verify_replay(dataset, link.hash, expected=event, actual=actual)
    return ReplayedTransaction(link.hash, problem is None, None if problem is None else problem.message, restored)


def _restored(
    dataset: DatasetId, event: ExecuteTransform, made: ExecutedTransform, data: DataSlice | None, objects: ObjectStore
) -> Iterator[str]:
    """Keys of what the transaction had made that is put back.

    What is made otherwise now is left alone.
    """
    if data is not None and event.new_data is not None and data.physical_hash == event.new_data.physical_hash:
        key = data_key(dataset, data.physical_hash)
        if put_back(key, made.data_path, size=data.size, objects=objects):
            yield key
    if made.checkpoint_path is not None and event.new_checkpoint is not None:
        name, size = physical_hash(made.checkpoint_path)
        key = checkpoint_key(dataset, name)
        if name == event.new_checkpoint.physical_hash and put_back(
            key, made.checkpoint_path, size=size, objects=objects
        ):
            yield key

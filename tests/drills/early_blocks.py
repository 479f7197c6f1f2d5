"""A pull that is killed among the blocks that are stored before its commit.

Blocks that name slices are stored one by one, each after its slice, long before the head moves. Whatever of them lies there when the process
dies: nobody sees any of it, and the same pull goes on, into a new dataset as into one that has some of the history.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.blocks.block import decode_block
from odfabric.formats.identifiers.dataset_layout import dataset_prefix, parse_ref
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, MetadataBlock, Seed
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node
from tests.drills import scenario
from tests.drills.places import Place, Places
from tests.drills.processes import opened, run

KILLED = -signal.SIGKILL
LATER_H, LATEST_H = 48, 72
MIRROR = "mirrored"

NEW = [f"object.block.put:{when}@{hit}" for when in ("before", "after") for hit in (2, 3)]
"""Three blocks come early: one, two or all of them are there."""
MORE = [f"object.block.put:{when}@2" for when in ("before", "after")]
"""Two blocks come early, onto a head that is there."""


def copy(node: Node, clock: SettableClock, receiver: str) -> None:
    """Pull the origin; the data blocks of it come early."""
    mirrored = DatasetAlias(node.account, Name(MIRROR))
    job = node.requests.pull(PullRequest(dataset=None, alias=mirrored, url=f"file://{_origin(node)}"))
    ended = node.jobs.work_until_ended(job, worker="drill", listener=lambda _: None)
    assert ended.error is None, ended.error


def _origin(node: Node) -> Path:
    assert node.settings.poll_folder is not None
    return node.settings.poll_folder / "origin"


def new_copy_dies(places: Places, folder: Path, armed: str, origin: Path) -> None:
    """No dataset is there before the pull was repeated; then all of it is."""
    place = _place(places, folder, origin)
    dataset = _seed(origin)
    assert run(place, copy, crash_at=armed) == KILLED, f"{armed} was never reached"
    with opened(place) as node:
        assert node.datasets.page(after=None, limit=10) == []
        assert node.ports.objects.read_ref(f"{dataset_prefix(dataset)}refs/head") is None
        early = _blocks(node, dataset)
        slices = _keys(node, dataset, "data")
    assert _surely_there(armed) <= len(early) <= len(slices) <= len(scenario.DAYS)
    _repeat(place, origin)


def longer_copy_dies(places: Places, folder: Path, armed: str, origin: Path) -> None:
    """The copy stays as it was before the pull was repeated."""
    place = _place(places, folder, origin)
    mine, head = folder / "sources" / "origin", (origin / "refs" / "head").read_text()
    shutil.rmtree(mine / "refs")  # with the head log, which would lead to the newest head
    (mine / "refs").mkdir()
    (mine / "refs" / "head").write_text(_first_data_block(origin))
    assert run(place, copy) == 0
    (mine / "refs" / "head").write_text(head)
    assert run(place, copy, crash_at=armed, hours_ahead=1) == KILLED, f"{armed} was never reached"
    with opened(place, hours_ahead=1) as node:
        entry = node.datasets.resolve(parse_dataset_alias(MIRROR))
        chain = node.datasets.head(entry).sequence_number + 1
        assert str(node.datasets.head(entry).hash) == _first_data_block(origin)
        assert node.ports.objects.read_ref(f"{dataset_prefix(entry.id)}refs/head") == _first_data_block(origin)
        assert len(_blocks(node, entry.id)) >= chain + _surely_there(armed)
        assert _verified(node)
    _repeat(place, origin)


def _surely_there(armed: str) -> int:
    """Blocks that were stored for sure: those of other threads may be, too."""
    point, _, hit = armed.partition("@")
    return int(hit) if point.endswith(":after") else 0


def _place(places: Places, folder: Path, origin: Path) -> Place:
    (folder / "sources").mkdir()
    shutil.copytree(origin, folder / "sources" / "origin")
    return places.new(folder)


def _repeat(place: Place, origin: Path) -> None:
    assert run(place, copy, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        entry = node.datasets.resolve(parse_dataset_alias(MIRROR))
        head = node.datasets.head(entry)
        assert str(head.hash) == (origin / "refs" / "head").read_text().strip()
        assert len(_blocks(node, entry.id)) == head.sequence_number + 1
        assert _verified(node)


def _verified(node: Node) -> bool:
    entry = node.datasets.resolve(parse_dataset_alias(MIRROR))
    job = node.requests.verify(entry, VerifyOptions())
    ended = node.jobs.work_until_ended(job, worker="check", listener=lambda _: None)
    return '"ok": true' in (ended.result or "")


def _blocks(node: Node, dataset: DatasetId) -> list[str]:
    return _keys(node, dataset, "blocks")


def _keys(node: Node, dataset: DatasetId, area: str) -> list[str]:
    return list(node.ports.objects.keys(f"{dataset_prefix(dataset)}{area}/"))


def _chain(origin: Path) -> list[tuple[str, MetadataBlock]]:
    """Names and blocks of the origin, newest first."""
    found, name = [], parse_ref((origin / "refs" / "head").read_text())
    while name is not None:
        block = decode_block((origin / "blocks" / str(name)).read_bytes())
        found.append((str(name), block))
        name = block.prev_block_hash
    return found


def _seed(origin: Path) -> DatasetId:
    _, block = _chain(origin)[-1]
    assert isinstance(block.event, Seed)
    return block.event.dataset_id


def _first_data_block(origin: Path) -> str:
    return [name for name, block in _chain(origin) if isinstance(block.event, AddData)][-1]

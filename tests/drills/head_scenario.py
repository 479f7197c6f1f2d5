"""A dataset whose key is handed over.

Exported, imported, and whose head log begins once more.
"""

from __future__ import annotations

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.jobs.requests import SendWish
from odfabric.wiring import Node
from tests.drills.scenario import SHELF, _create, _day, _push, _send


def prove(node: Node, clock: SettableClock, receiver: str) -> None:
    """Each change of keys and logs, and what was pushed in between."""
    _create(node, "readings")
    by = node.operator
    if SHELF not in {str(each.name) for each in node.sharing.repositories.listed(by=by)}:
        node.sharing.repositories.add(SHELF, f"file:{SHELF}/", shared=False, by=by)
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    _push(node, entry, "day-1", _day(1) + "\n")
    _send(node, entry, SendWish(to=SHELF, force=True))
    node.sharing.verify(f"file:{node.settings.push_folder}/{SHELF}/local/readings")
    node.heads.rotate(node.datasets.resolve(entry.id), by=by)
    entry = node.datasets.resolve(entry.id)
    node.heads.import_(entry, node.heads.export(entry, by=by).private, by=by)
    _push(node, entry, "day-2", _day(2) + "\n")
    _send(node, entry, SendWish(to=SHELF, force=True))


def begin_again(node: Node, clock: SettableClock, receiver: str) -> None:
    """As if older versions had kept the dataset: the log begins at its present head."""
    _create(node, "readings")
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    node.ports.head_logs.replace(entry.id, ())
    node.commits.publish_log(entry.id)

"""Two nodes with own databases push to one dataset in one bucket; one node dies."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.drills import scenario
from tests.drills.drills import KILLED, LATER_H, LATEST_H
from tests.drills.places import InBucket, Place
from tests.drills.processes import ended, opened, receiving, started
from tests.support.servers.s3 import S3Server

DEATHS = ("object.ref.put:after@6", "chain.append:before@8", "object.ref.put:before@6", "intent.drop:before@7")
IN_SHORT = 1
"""Of them, unless `ODF_SERVER_DRILL_ROUNDS` is set: two nodes at work are slow on two cores."""


@pytest.fixture
def nodes(tmp_path: Path, s3: S3Server, bucket: str) -> tuple[Place, Place]:
    """Workspaces of their own, objects in common."""
    first = InBucket(settings={"heads": "objects", "heads_poll_s": 0.01}, s3=s3, bucket=bucket).new(tmp_path)
    return replace(first, workspace=tmp_path / "first"), replace(first, workspace=tmp_path / "second")


@pytest.mark.parametrize("death", DEATHS if os.environ.get("ODF_SERVER_DRILL_ROUNDS") else DEATHS[:IN_SHORT])
def test_two_nodes_on_one_bucket_make_one_history(nodes: tuple[Place, Place], death: str) -> None:
    steps = scenario.push_beside_others
    with receiving() as receiver:
        dying = started(nodes[0], steps, crash_at=death, receiver=receiver.address)
        living = started(nodes[1], steps, receiver=receiver.address)
        assert ended(dying) == KILLED, f"{death} was never reached"
        again = started(nodes[0], steps, hours_ahead=LATER_H, receiver=receiver.address)
        assert [ended(living), ended(again)] == [0, 0]
        heads, events = set(), []
        for place in nodes:
            with opened(place, hours_ahead=LATEST_H, receiver=receiver.address) as node:
                entry = node.datasets.resolve(parse_dataset_alias("readings"))
                heads.add(node.datasets.head(entry).hash)
                tail = node.rows.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
                rows = tail["data"]
                assert isinstance(rows, list)
                assert sorted(row["city"] for row in rows) == sorted(everything())
                assert [row["offset"] for row in rows] == list(range(len(rows)))
                job = node.jobs.work_until_ended(
                    node.requests.verify(entry, VerifyOptions()), worker="check", listener=lambda _: None
                )
                assert '"ok": true' in (job.result or "")
                while node.background.relay_outbox():
                    pass
                told = scenario.deliveries(node, entry)
                moves = sorted((delivery.sequence, delivery.old_head, delivery.new_head) for delivery in told)
                assert [move[0] for move in moves] == list(range(1, len(moves) + 1))
                assert all(later[1] == earlier[2] for earlier, later in pairwise(moves))
                assert moves[-1][2] == node.datasets.head(entry).hash
                events.append(len(moves))
        assert len(heads) == 1
        assert all(count >= scenario.PUSHES_OF_NODE for count in events)


def everything() -> list[str]:
    """What both have said, once."""
    said = [f"{name}-{number}" for name in ("first", "second") for number in range(scenario.PUSHES_OF_NODE)]
    return [*said, scenario.SHARED_KEY]

"""Drills: a process dies at a point, the next goes on; nothing lost or doubled.

On any kind of place.

Each drill makes a place, kills exactly one process in it and checks what the next one has made of it.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.unreliable.crash_points import CRASH_POINTS
from odfabric.formats.blocks.block import decode_block
from odfabric.formats.identifiers.dataset_layout import ALIAS, HEAD, has_no_head
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.secrets.sealed_form import MARK_BYTES
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.usecases.ingestion.staging import STAGING_PREFIX
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node
from odfabric.wiring.places.database_place import database_place
from odfabric.wiring.places.keys import node_sealing
from tests.drills import early_blocks, scenario, smart_drills
from tests.drills.head_scenario import begin_again, prove
from tests.drills.people import check_people, lives, people_of
from tests.drills.places import InFolder, Place, Places
from tests.drills.processes import NOBODY, Receiver, opened, receiving, run

KILLED = -signal.SIGKILL
LATER_H, LATEST_H = 48, 72
"""The next process comes two days later, and the last look is taken on the third."""


@dataclass
class Prepared:
    """Prepared places with a history, made once and copied by each drill."""

    root: Path
    _places: dict[tuple[str, str], Place] = field(default_factory=dict)

    def place(self, places: Places, name: str, grow: Callable[[Node], object]) -> Place:
        """The place of that name, of the kind `places`."""
        known = (repr(places), name)
        if known not in self._places:
            folder = self.root / str(len(self._places))
            folder.mkdir(parents=True)
            self._places[known] = places.new(folder)
            with opened(self._places[known]) as node:
                grow(node)
        return self._places[known]

    def origin(self) -> Path:
        """A dataset of another node, as a folder."""
        place = self.place(InFolder(), "origin", scenario.grow_origin)
        (head,) = place.workspace.glob("objects/*/refs/head")
        return head.parent.parent


Act = Callable[[Places, Path, str, Prepared], None]


@dataclass(frozen=True)
class Drill:
    """What dies, the point that is armed, and how it goes."""

    about: str
    armed: str
    act: Act

    def __str__(self) -> str:
        return f"{self.about}-{self.armed}"


def pushes(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A day of pushes, transforms and webhooks."""
    steps = scenario.pushes_and_subscribers
    place = places.new(folder)
    with receiving() as receiver:
        died = run(place, steps, crash_at=armed, receiver=receiver.address)
        point, _, hit = armed.partition("@")
        if died == 0 and hit == "2":
            # A point that a run passes once only: the second drill is the first one again, in a place of its own.
            (folder / "again").mkdir()
            pushes(places, folder / "again", point, prepared)
            return
        assert died == KILLED, f"{armed} was never reached"
        assert run(place, steps, hours_ahead=LATER_H, receiver=receiver.address) == 0
        check_pushes(place, receiver)


def check_pushes(place: Place, receiver: Receiver) -> None:
    """Every dataset verifies; acknowledged rows and ordered events are there once."""
    with opened(place, hours_ahead=LATEST_H, receiver=receiver.address) as node:
        for name in ("readings", "copied"):
            assert check_dataset(node, name) == len(scenario.DAYS)
        assert 1 <= check_dataset(node, "grouped") <= len(scenario.DAYS)
        aliases = [str(entry.alias) for entry in node.datasets.page(after=None, limit=10)]
        assert aliases == ["local/copied", "local/grouped", "local/readings"]
        assert node.background.relay_outbox() == 0
        readings = node.datasets.resolve(parse_dataset_alias("readings"))
        assert sorted(found.sequence for found in scenario.deliveries(node, readings)) == [1, 2, 3]
        assert sorted(receiver.taken.values()) == [1, 2, 3]
        exchange = [path for path in (place.workspace / "exchange").iterdir() if not path.name.startswith(".")]
        assert exchange == []
    assert rows_of(place, {"commit_intents": "*", "commit_intent_jobs": "*"}) == {
        "commit_intents": [],
        "commit_intent_jobs": [],
    }


def check_dataset(node: Node, name: str) -> int:
    """Every row is there once and the dataset verifies.

    How many blocks have brought them.
    """
    entry = node.datasets.resolve(parse_dataset_alias(name))
    answer = node.rows.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
    rows = answer["data"]
    assert isinstance(rows, list)
    assert [row["offset"] for row in rows] == list(range(len(scenario.DAYS))), "rows are lost or doubled"
    assert len({row["event_time"] for row in rows}) == len(scenario.DAYS), "a row is there twice"
    job = node.requests.verify(entry, VerifyOptions())
    ended = node.jobs.work_until_ended(job, worker="check", listener=lambda _: None)
    assert json.loads(ended.result or "{}") == {"ok": True, "errors": []}
    events = [link.block.event for link in node.datasets.log(entry, limit=100)]
    return sum(isinstance(event, AddData | ExecuteTransform) for event in events)


def pulls(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Polled files, what is derived from them, a copy from elsewhere."""
    origin, steps = prepared.origin(), scenario.polls_and_copies
    (folder / "sources").mkdir()
    shutil.copytree(origin, folder / "sources" / "origin")
    place = places.new(folder)
    assert run(place, steps, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, steps, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        blocks = [check_dataset(node, name) for name in ("polled", "derived", "mirrored")]
        head = node.repository.head(node.datasets.resolve(parse_dataset_alias("mirrored")).id).hash
    assert 1 <= blocks[1] <= blocks[0] <= blocks[2] == len(scenario.DAYS)
    assert str(head) == (origin / "refs" / "head").read_text().strip()


KNOWN_TO_OBJECTS = {
    "datasets": "id, account, name, kind, created_at",
    "heads": "dataset_id, hash, sequence_number, system_time",
    "blocks": "*",
    "idempotency": "*",
}
"""What of the database the object store knows. The size of a chain is measured later."""


def rows_of(place: Place, tables: dict[str, str]) -> dict[str, list[tuple[object, ...]]]:
    """Some columns of all rows."""
    with (
        closing(Database(database_place(scenario.settings_of(place, NOBODY)))) as database,
        database.read() as connection,
    ):
        return {
            table: sorted(tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM {table}")))
            for table, columns in tables.items()
        }


def rebuilds(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A database that is lost and comes back from the objects."""
    lived = prepared.place(places, "lost sight", scenario.grow_and_lose_sight)
    before = rows_of(lived, KNOWN_TO_OBJECTS)
    assert [len(rows) for rows in before.values()] == [3, 3, len(before["blocks"]), 2 * len(scenario.DAYS)]
    place = places.lose_database(places.copy(lived, folder))
    assert run(place, scenario.rebuild, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.rebuild) == 0
    assert rows_of(place, KNOWN_TO_OBJECTS) == before


def collects(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A collector that is done with a deleted dataset."""
    lived = prepared.place(places, "deleted", scenario.make_and_delete)
    place = places.copy(lived, folder)
    kept, doomed = objects_of(place, "readings")
    assert doomed
    assert len(rows_of(place, {"removed_datasets": "*"})["removed_datasets"]) == 1
    assert run(place, scenario.collect, crash_at=armed, hours_ahead=LATER_H) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.collect, hours_ahead=LATER_H) == 0
    assert objects_of(place, "readings") == (kept, [])
    assert rows_of(place, {"removed_datasets": "*"}) == {"removed_datasets": []}


def objects_of(place: Place, name: str) -> tuple[list[str], list[str]]:
    """Keys of a dataset's objects, and of those of all others.

    Without names, and without what says that one was removed.
    """
    with opened(place) as node:
        prefix = node.datasets.resolve(parse_dataset_alias(name)).id.multibase
        objects = node.ports.objects
        keys = [key for key in objects.keys("f") if not key.endswith(ALIAS)]
        keys = [key for key in keys if not key.endswith(HEAD) or not has_no_head(objects.read_ref(key))]
    own = [key for key in keys if key.startswith(prefix)]
    return own, [key for key in keys if key not in own]


def consumes(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A consumer with a cursor: it has every change exactly once."""
    place = places.copy(prepared.place(places, "rows", scenario.grow_origin), folder)
    assert run(place, scenario.consume, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.consume, hours_ahead=LATER_H) == 0
    own = json.loads((place.workspace / scenario.CONSUMED).read_text())
    assert [row["offset"] for row in own["rows"]] == list(range(len(scenario.DAYS)))
    assert own["done"]


def indexes(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Current-state indexes: they say what the chain says."""
    place = places.new(folder)
    assert run(place, scenario.follow, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.follow, hours_ahead=LATER_H) == 0
    with opened(place) as node:
        entry = node.datasets.resolve(parse_dataset_alias("ledger"))
        assert node.indexes.inspect(entry).blocks_behind == 0
        assert node.indexes.verify(entry).problem is None


def flows(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Flows: anyone who schedules next loses no run and doubles none."""
    place = places.new(folder)
    assert run(place, scenario.run_by_itself, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.run_by_itself, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        assert 1 <= check_dataset(node, "copied") <= check_dataset(node, "readings") == len(scenario.DAYS)
        assert not node.ports.flows.unfinished(limit=9)
        (flow,) = node.ports.flows.page(limit=9)
        assert len(node.ports.flows.runs(flow_id=flow.id, limit=9)) <= node.settings.flow_runs_kept_max


def tidies(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A dataset that is renamed, and saved queries."""
    place = places.new(folder)
    assert run(place, scenario.tidy_up, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.tidy_up) == 0
    with opened(place) as node:
        assert scenario.kept_queries(node) == {"kept": "SELECT 2"}
        assert scenario.kept_variables(node) == {"TOKEN": "a secret of the source"}
        assert [str(entry.alias) for entry in node.datasets.page(after=None, limit=10)] == ["local/measured"]


def shares(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Pushes to a folder: what lies there in the end is whole, and equals the node's."""
    place = places.new(folder)
    assert run(place, scenario.share, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.share, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        entry = node.datasets.resolve(parse_dataset_alias("readings"))
        shelf = node.ports.remotes.open(f"file:{scenario.settings_of(place, NOBODY).push_folder}/shelf/local/readings")
        name, seen = shelf.head(), 0
        assert name == node.datasets.head(entry).hash
        while (block := decode_block(shelf.block(name))).prev_block_hash is not None:
            name, seen = block.prev_block_hash, seen + 1
        assert seen == node.datasets.head(entry).sequence_number
        assert [str(each.name) for each in node.sharing.repositories.listed(by=node.operator)] == [scenario.SHELF]
        assert node.sharing.repositories.aliases(entry, by=node.operator) == []


def proves(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Keys that change, and logs: what is published verifies by the kept key."""
    place = places.new(folder)
    again = armed.startswith(("head_log.add", "head_log.replace"))
    assert run(place, begin_again if again else prove, crash_at=armed) == KILLED, f"{armed} was never reached"
    if again:
        assert run(place, begin_again) == 0
    assert run(place, prove, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        entry = node.datasets.resolve(parse_dataset_alias("readings"))
        found = node.heads.described(entry)
        assert (found.can_sign, found.moves[0].new_head) == (True, node.datasets.head(entry).hash)
        shelf = scenario.settings_of(place, NOBODY).push_folder
        report = node.sharing.verify(f"file:{shelf}/{scenario.SHELF}/local/readings")
        assert (report["ok"], report["head"]) == (True, str(node.datasets.head(entry).hash)), report["errors"]


def uploads(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Uploads in parts to the store: one is pushed once, of the other nothing is left."""
    place = places.new(folder)
    assert run(place, scenario.upload_in_parts, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, scenario.upload_in_parts, hours_ahead=LATER_H) == 0
    with opened(place, hours_ahead=LATEST_H) as node:
        node.background.remove_leftovers()
        assert check_dataset(node, "readings") == 1
        assert node.ports.part_uploads is not None
        assert list(node.ports.part_uploads.unfinished(STAGING_PREFIX)) == []
        assert [key for key in node.ports.objects.keys(STAGING_PREFIX) if "parts-" in key] == []


def people(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """Accounts, roles and credentials: what happened is in the audit log, once."""
    place = places.new(folder)
    assert run(place, lives, crash_at=armed) == KILLED, f"{armed} was never reached"
    assert run(place, lives) == 0
    with people_of(scenario.settings_of(place, NOBODY)) as found:
        check_people(found)


def rotates(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A new node key: every secret always opens, and the old key goes in the end."""
    place = places.copy(prepared.place(places, "subscribed", scenario.grow_subscribed), folder)
    before = check_secrets(place)
    assert run(place, scenario.rotate, crash_at=armed) == KILLED, f"{armed} was never reached"
    check_secrets(place)
    assert run(place, scenario.rotate) == 0
    assert not check_secrets(place) & before


def check_secrets(place: Place) -> set[bytes]:
    """All secrets open with the key file as it lies there.

    The marks of the keys that sealed them.
    """
    settings, marks, secrets = scenario.settings_of(place, NOBODY), set(), []
    with closing(Database(database_place(settings))) as database:
        for store in sealed_stores(database):
            for row in store.rows(unlike=b"none", after=None, limit=100):
                marks.add(row.data[:MARK_BYTES])
                secrets.append(node_sealing(settings).open(row.data, context=row.context))
    assert len(secrets) == 3
    assert secrets.count(scenario.SECRET) == 1
    return marks


def talks_as(role: str, *, pushes: bool) -> Act:
    """A conversation of the Smart protocol in which the process of this role dies."""
    dies = smart_drills.client_dies if role == "client" else smart_drills.server_dies

    def act(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
        dies(places, folder, armed, pushes=pushes)

    return act


def copies(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """A pull of a new copy that dies among the blocks that it stores early."""
    early_blocks.new_copy_dies(places, folder, armed, prepared.origin())


def copies_more(places: Places, folder: Path, armed: str, prepared: Prepared) -> None:
    """The same of a copy that has some of the history."""
    early_blocks.longer_copy_dies(places, folder, armed, prepared.origin())


OF_PEOPLE = ("account.", "relation.", "token.", "invitation.", "device.", "audit.")
OF_KEYS = ("node_key.", "sealed.")
OF_DESK = ("chain.rename", "saved_query.", "variable.")
OF_SHARING = ("repository.", "alias.", "destination.", "chain.replace")
OF_HEADS = ("head_log.", "keys.keep")
OF_PARTS = ("parts.",)
OF_TALKS = ("talk.", "link.", "peer.")
OF_FLOWS = ("flow.delete", "flow.drop_run", "flow.forget", "role.")
ELSEWHERE = (
    "chain.adopt",
    "signing_key.add",
    "removed.forget",
    "cursor.",
    "index.",
    *OF_DESK,
    *OF_SHARING,
    *OF_HEADS,
    *OF_PARTS,
    *OF_TALKS,
    *OF_FLOWS,
    *OF_PEOPLE,
    *OF_KEYS,
)
"""Calls that a day of pushes has not; other drills have them."""
WHERE_SHARED = ("intent.", "object.name.put")
WHERE_OWN = ("object.ref.delete",)
"""Calls that happen only where heads of record lie in the objects, or only where they lie in the database."""

PULLED_BY = (
    *("object.block", "object.data", "object.checkpoint", "object.info", "object.ref.put", "object.name.put"),
    *("chain.append", "intent.", "job.enqueue", "job.lease", "job.heartbeat", "job.succeed"),
    *("engine.ingest", "engine.transform", "outbox"),
)
"""Where a pull can die."""


def drills_of(*, shared: bool) -> list[Drill]:
    """All of them, each point twice.

    `shared`: where heads of record lie in the objects.
    """
    points = [point for point in CRASH_POINTS if not point.startswith(WHERE_OWN if shared else WHERE_SHARED)]
    twice = [f"{point}@{hit}" for point in points for hit in (1, 2)]
    adoptions = [f"chain.adopt:{when}@{hit}" for when in ("before", "after") for hit in (2, 4)]
    moves = {point: 5 if "move" in point else 1 for point in points if point.startswith("cursor.")}
    return [
        *(Drill("pushes", armed, pushes) for armed in twice if not armed.startswith(ELSEWHERE)),
        # The first webhook makes the only key.
        *(Drill("pushes", armed, pushes) for armed in points if armed.startswith("signing_key.add")),
        *(Drill("pulls", armed, pulls) for armed in twice if armed.startswith(PULLED_BY)),
        *(Drill("copies", armed, copies) for armed in early_blocks.NEW if not shared),
        *(Drill("copies more", armed, copies_more) for armed in early_blocks.MORE if not shared),
        # Three datasets, and what lies beyond the head of one of them.
        *(
            Drill("rebuilds", armed, rebuilds)
            for armed in (*adoptions, "object.ref.put:before", "object.ref.put:after")
        ),
        *(
            Drill("flows", f"{armed}@{hit}", flows)
            for armed in points
            if armed.startswith((*OF_FLOWS, "flow.write"))
            for hit in ((1, 3, 6, 9) if "write" in armed else (1,))
        ),
        *(Drill("tidies", armed, tidies) for armed in points if armed.startswith(OF_DESK) and not shared),
        *(Drill("shares", armed, shares) for armed in points if armed.startswith(OF_SHARING) and not shared),
        *(Drill("proves", armed, proves) for armed in points if armed.startswith(OF_HEADS) and not shared),
        *(() if shared else _talks()),
        *(Drill("uploads", armed, uploads) for armed in points if armed.startswith(OF_PARTS) and not shared),
        # They do not ask where heads of record lie.
        *(Drill("people", armed, people) for armed in points if armed.startswith(OF_PEOPLE) and not shared),
        *(Drill("collects", armed, collects) for armed in points if armed.startswith("removed.forget")),
        # The fifth move acknowledges.
        *(Drill("consumes", f"{armed}@{hit}", consumes) for armed, hit in moves.items()),
        *(
            Drill("rotates", f"{armed}@{hit}", rotates)
            for armed in points
            if armed.startswith(OF_KEYS)
            for hit in ((1, 2) if armed.startswith("sealed.") else (1,))
        ),
        *(
            Drill("indexes", armed if "drop" in armed else f"{armed}@2", indexes)
            for armed in points
            if armed.startswith("index.")
        ),
    ]


def _talks() -> list[Drill]:
    """Each role and direction, killed at each step of the exchange."""
    found = {
        ("client", True): [
            *smart_drills.CLIENT_PUSHES,
            *smart_drills.ENDS,
            *smart_drills.UPLOADS,
            *smart_drills.LOGS,
        ],
        ("client", False): [*smart_drills.CLIENT_PULLS, *smart_drills.ENDS],
        ("server", True): [*smart_drills.SERVER_TAKES, *smart_drills.STORES],
        ("server", False): smart_drills.SERVER_GIVES,
    }
    return [
        Drill(f"{role} {'pushes' if pushes else 'pulls'}", armed, talks_as(role, pushes=pushes))
        for (role, pushes), points in found.items()
        for armed in points
    ]


def is_other_hit(drill: Drill, number: int) -> bool:
    """Whether a drill is for another round: a point's two hits alternate by round.

    One comes in even rounds, the other in odd ones.
    """
    return drill.about in ("pushes", "pulls") and drill.armed.endswith("@2" if number % 2 == 0 else "@1")

"""Who waits is informed; who is not informed finds out all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
import redis

from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.errors import NotYet, UsageError
from odfabric_persist.listen_async import AsyncListener
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredConsensus
from odfabric_persist.notifications import notify_postgres, notify_redis
from odfabric_persist.notifications.notify import Announcements, LocalNotifier, NoNotifier, Notifier, Pauses, Watch
from odfabric_persist.notifications.notify_postgres import postgres_notifier
from odfabric_persist.notifications.notify_redis import redis_notifier
from tests.persist.scenario import CODEC, listed, updates_of
from tests.support.servers.valkey import RedisServer, redis_server
from tests.support.waiting import wait_until

NEVER = Pauses(poll_s=60, fallback_s=60, fallback_s_max=60)
"""Who waits with these is informed, or too late."""

SOON = Pauses(poll_s=0.02, fallback_s=0.05, fallback_s_max=0.2)


class Processes:
    """Clients as in different processes: they share nothing but the stores."""

    def __init__(self) -> None:
        self.blob, self.consensus, self.meter = MemoryBlob(), MemoryConsensus(), Meter()

    def open(self, notifier: Notifier, pauses: Pauses = NEVER) -> Shard:
        """The shard of a new one."""
        consensus = MeteredConsensus(self.consensus, self.meter)
        client = PersistClient(self.blob, consensus, PersistSettings(pauses=pauses), notifier=notifier)
        return client.open("s", CODEC)

    def after_a_look(self, pool: ThreadPoolExecutor, wait: Callable[[], Any]) -> Future[Any]:
        """Begin to wait on another thread.

        Returns when that has looked once, and found nothing.
        """
        before = self.meter.calls["consensus.scan"]
        waiting = pool.submit(wait)
        wait_until(lambda: self.meter.calls["consensus.scan"] > before, what="the first look")
        return waiting


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


@pytest.fixture(params=["local", "postgres", "redis"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Notifier, Notifier]]:
    """Two notifiers of one kind, as two processes have them; what is local is one."""
    with ExitStack() as stack:
        if request.param == "local":
            both = (LocalNotifier(),) * 2
            yield both
            return
        if request.param == "postgres":
            url = str(request.getfixturevalue("postgres_url"))
            made = [stack.enter_context(closing(postgres_notifier(url))) for _ in range(2)]
        else:
            url = request.getfixturevalue("redis_of_tests").url
            made = [stack.enter_context(closing(redis_notifier(url))) for _ in range(2)]
        wait_until(lambda: all(one.tells for one in made), what="the connections")
        yield made[0], made[1]


def test_who_waits_is_told(pair: tuple[Notifier, Notifier], processes: Processes, pool: ThreadPoolExecutor) -> None:
    writing, reading = processes.open(pair[0]), processes.open(pair[1])
    writer, listener = writing.open_writer(), reading.open_reader().listen(0)
    for upper in range(1, 4):
        snapshot = processes.after_a_look(pool, lambda as_of=upper - 1: reading.snapshot(as_of, wait_s=30))
        heard = processes.after_a_look(pool, lambda: listener.next(wait_s=30)) if upper > 1 else None
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
        assert listed(snapshot.result(20)) == [["a", upper - 1, upper]]
        assert heard is None or listed(heard.result(20)) == [["a", upper - 1, 1]]


def test_who_waits_for_what_does_not_come_is_told_when_time_is_up(processes: Processes) -> None:
    shard = processes.open(LocalNotifier())
    with pytest.raises(NotYet):
        shard.snapshot(0, wait_s=0.05)
    assert shard.open_reader().listen(0).next(wait_s=0.05) is None


class Deaf(LocalNotifier):
    """Says that it signals, and drops everything."""

    def publish(self, shard: str, seqno: int) -> None:
        pass


@pytest.mark.parametrize("notifier", [Deaf(), NoNotifier()], ids=["lost", "none"])
def test_without_announcements_it_only_takes_longer(
    notifier: Notifier, processes: Processes, pool: ThreadPoolExecutor
) -> None:
    writing, reading = processes.open(Deaf()), processes.open(notifier, SOON)
    writer = writing.open_writer()
    waiting = processes.after_a_look(pool, lambda: reading.snapshot(0, wait_s=30))
    writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
    assert listed(waiting.result(20)) == [["a", 0, 1]]


def test_pauses_grow_while_nobody_tells_and_are_short_where_nobody_would() -> None:
    with Watch(LocalNotifier(), "s", Pauses()) as watch:
        found = []
        for _ in range(6):
            found.append(watch.pause_s)
            watch.looked(told=False)
        assert found == [1, 2, 4, 8, 16, 16]
        watch.looked(told=True)
        assert watch.pause_s == 1
    with Watch(NoNotifier(), "s", Pauses()) as watch:
        watch.looked(told=False)
        assert watch.pause_s == 0.1


def test_what_was_announced_before_the_wait_ends_it_once() -> None:
    announcements = Announcements()
    with announcements.subscribe("s") as subscription:
        announcements.announce("other", 9)
        assert not subscription.wait(3, 0)
        announcements.announce("s", 3)
        assert not subscription.wait(3, 0)
        announcements.announce("s", 5)
        announcements.announce("s", 4)
        assert subscription.wait(4, 0)
        assert not subscription.wait(4, 0), "it would end every wait from now on"
        announcements.wake_all()
        assert subscription.wait(99, 0)
    announcements.announce("s", 6)
    assert not subscription.heard(0)


def test_a_redis_that_is_killed_and_comes_back_costs_time_only(processes: Processes, pool: ThreadPoolExecutor) -> None:
    with (
        redis_server() as server,
        closing(redis_notifier(server.url)) as ours,
        closing(redis_notifier(server.url)) as theirs,
    ):
        assert server.process is not None, "this test kills its server: it cannot be one of somebody else"
        wait_until(lambda: ours.tells and theirs.tells, what="the connections")
        pauses = Pauses(poll_s=0.05, fallback_s=60, fallback_s_max=60)
        writing, reading = processes.open(theirs), processes.open(ours, pauses)
        writer = writing.open_writer()
        waiting = processes.after_a_look(pool, lambda: reading.snapshot(0, wait_s=30))
        server.process.kill()
        # Who waits is woken when nobody signals any more, and looks by itself.
        wait_until(lambda: not ours.tells, what="the end of the connection")
        writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
        assert listed(waiting.result(20)) == [["a", 0, 1]]
        server.process.start()
        wait_until(lambda: ours.tells, what="the new connection")
        waiting = processes.after_a_look(pool, lambda: reading.snapshot(1, wait_s=30))
        writer.compare_and_append(updates_of([["b", 1, 1]]), 1, 2)
        assert listed(waiting.result(20)) == [["a", 1, 1], ["b", 1, 1]]


def test_a_listening_session_that_is_ended_is_replaced(
    postgres_url: str, processes: Processes, pool: ThreadPoolExecutor
) -> None:
    with closing(postgres_notifier(postgres_url)) as ours, closing(postgres_notifier(postgres_url)) as theirs:
        wait_until(lambda: ours.tells and theirs.tells, what="the connections")
        listening = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            old = set(admin.execute(listening).fetchall())
            assert len(old) == 2
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            wait_until(lambda: len(set(admin.execute(listening).fetchall()) - old) == 2, what="the new sessions")
        wait_until(lambda: ours.tells and theirs.tells, what="the connections")
        writing, reading = processes.open(theirs), processes.open(ours)
        writer = writing.open_writer()
        waiting = processes.after_a_look(pool, lambda: reading.snapshot(0, wait_s=30))
        writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
        assert listed(waiting.result(20)) == [["a", 0, 1]]


def test_what_others_send_on_the_channel_is_ignored(postgres_url: str, redis_of_tests: RedisServer) -> None:
    junk = ["", "x", "[1]", "{}", '["s", "7"]', "[7, 7]", "null"]
    real = '["s", 7]'
    with (
        closing(postgres_notifier(postgres_url)) as over_postgres,
        closing(redis_notifier(redis_of_tests.url)) as over_redis,
    ):
        wait_until(lambda: over_postgres.tells and over_redis.tells, what="the connections")
        with over_postgres.subscribe("s") as first, over_redis.subscribe("s") as second:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                for message in [*junk, real]:
                    connection.execute("SELECT pg_notify(%s, %s)", (notify_postgres.CHANNEL, message))
            with closing(redis.Redis.from_url(redis_of_tests.url)) as client:
                for message in [b"\xff", *junk, real]:
                    client.publish(notify_redis.CHANNEL, message)
            assert first.wait(6, 20)
            assert second.wait(6, 20)
            assert not first.heard(-1)


def test_a_server_that_is_not_there_holds_nobody_up() -> None:
    before = threading.active_count()
    for notifier in (postgres_notifier("postgresql://127.0.0.1:1/x"), redis_notifier("redis://127.0.0.1:1/0")):
        assert not notifier.tells
        with notifier.subscribe("s") as subscription:
            notifier.publish("s", 1)
            assert subscription.wait(0, 0), "who waits in the same process needs no server"
        notifier.close()
    assert threading.active_count() == before


def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="invalid-url"):
        postgres_notifier("no address")
    with pytest.raises(UsageError, match="invalid-url"):
        redis_notifier("http://127.0.0.1")


def test_async_listening_hears_all_in_order_and_leaves_the_loop_alone(processes: Processes) -> None:
    notifier = LocalNotifier()
    shard = processes.open(notifier)
    writer, reader = shard.open_writer(), shard.open_reader()

    async def write() -> None:
        for upper in range(1, 6):
            await asyncio.to_thread(
                writer.compare_and_append, updates_of([[f"k{upper}", upper - 1, 1]]), upper - 1, upper
            )
        await asyncio.to_thread(writer.compare_and_append, updates_of([]), 5, None)

    async def follow() -> list[tuple[list[list[Any]], int | None]]:
        async with AsyncListener(reader.listen(0)) as listener:
            # Nothing is there yet: the loop goes on while it waits, and the timeout loses nothing.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(listener), 0.05)
            writing = asyncio.create_task(write())
            found = [(listed(heard.updates), heard.frontier) async for heard in listener]
            await writing
            return found

    found = asyncio.run(follow())
    assert [row for rows, _ in found for row in rows] == [[f"k{upper}", upper - 1, 1] for upper in range(2, 6)]
    assert found[-1][1] is None


def test_a_look_that_nobody_waited_for_any_more_is_given_out_later(processes: Processes) -> None:
    shard = processes.open(LocalNotifier())
    writer, listener = shard.open_writer(), shard.open_reader().listen(0)
    writer.compare_and_append(updates_of([["a", 0, 1], ["b", 1, 1]]), 0, 2)
    slow = threading.Event()
    poll = listener.poll

    class Slow:
        """The listener, which takes its time."""

        shard, frontier = listener.shard, 1

        def poll(self) -> Any:
            slow.wait(20)
            return poll()

    async def follow() -> list[list[Any]]:
        async with AsyncListener(Slow()) as slowly:  # type: ignore[arg-type]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(slowly), 0.05)
            slow.set()
            return listed((await anext(slowly)).updates)

    assert asyncio.run(follow()) == [["b", 1, 1]]

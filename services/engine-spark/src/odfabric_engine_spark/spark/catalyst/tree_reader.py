"""Objects of the JVM, many reported in one answer.

Owns the way in which trees of Spark's planner are read and lists for it are made, and how objects that nobody holds any more are given
back. Py4J asks once for each member of a list, once for its class, and once more to give it back; a query has thousands of them, and
each question takes a tenth of a millisecond. Invariant: what is reported is what the objects themselves would answer. Not here: what the
trees mean (`plan_nodes`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from py4j.java_gateway import GatewayClient, JavaClass, JavaObject
from py4j.protocol import GATEWAY_SERVER_OBJECT_ID

_NAME = "TreeReader"
_NOTHING = "-"
_NUMBERED = "o"
"""How ids begin of objects that were handed over; others stand for the gateway itself."""
_GIVEN_BACK_MAX = 1_000
_TRIES_MAX = 10
"""Failures in a row after which nothing is given back any more."""
"""Objects that are given back at once."""
_PAUSE_S = 0.2
"""How long objects wait for others to be given back with them."""


class Kind(Enum):
    """What an object is, as far as that is often asked."""

    EXPRESSION = "e"
    SEQ = "s"
    SOME = "o"
    OTHER = "-"


class KnownObject(JavaObject):  # type: ignore[misc]
    """An object of which the JVM has reported more than its id.

    `class_name` is as Java has it. `column_id` is the id of a column, None for what is none.
    """

    def __init__(self, line: str, client: Any) -> None:
        identity, self.class_name, column_id, kind = line.split(" ")
        self.kind = Kind(kind)
        self.column_id = None if column_id == _NOTHING else int(column_id)
        super().__init__(identity, client)


class TreeReader:
    """The reader of one JVM."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        compiler = JavaClass("org.codehaus.janino.SimpleCompiler", client)()
        compiler.cook(files(__package__).joinpath(f"{_NAME}.java").read_text("utf-8"))
        (constructor,) = compiler.getClassLoader().loadClass(_NAME).getConstructors()
        anything = JavaClass("java.lang.Class", client).forName("java.lang.Object")
        arguments = JavaClass("java.lang.reflect.Array", client).newInstance(anything, 1)
        arguments[0] = JavaObject(GATEWAY_SERVER_OBJECT_ID, client).getGateway()
        self._java = constructor.newInstance(arguments)
        self._client.finalizer_deque = _GivenBack(self._java, self._client.finalizer_deque)

    def items(self, collection: Any) -> list[Any]:
        """Members of a Scala collection."""
        return [
            collection.apply(at) if known is None else known
            for at, known in enumerate(self._objects(self._java.items(collection)))
        ]

    def elements(self, product: Any) -> list[Any]:
        """Elements of a product, in whose order its class is made."""
        return [
            product.productElement(at) if known is None else known
            for at, known in enumerate(self._objects(self._java.items(product)))
        ]

    def children(self, node: Any) -> list[Any]:
        """Children of a node of a tree."""
        return self._objects(self._java.children(node))

    def expressions(self, plan: Any) -> list[Any]:
        """Expressions that a plan node holds itself."""
        return self._objects(self._java.expressions(plan))

    def output(self, plan: Any) -> list[Any]:
        """Columns that a plan node gives."""
        return self._objects(self._java.output(plan))

    def below(self, node: Any) -> list[Any]:
        """A node and all below it, parents first, from left to right."""
        return self._objects(self._java.below(node))

    def column_id(self, named: Any) -> int:
        """The id of a column."""
        known: int | None = named.column_id if isinstance(named, KnownObject) else None
        return self._java.columnId(named) if known is None else known

    def is_a(self, value: Any, class_name: str) -> bool:
        """Whether an object is an instance of a class or trait."""
        return bool(self._java.isA(value, class_name))

    def meaning(self, plan: Any, *, parsed: bool) -> str:
        """All that a plan says, ids apart.

        Of one that is not `parsed` only what is read of its inputs.
        """
        return str(self._java.meaning(plan, parsed))

    def seq(self, values: Sequence[Any]) -> Any:
        """A Scala list of objects."""
        return self._java.seq(_ids(values))

    def as_columns(self, values: Sequence[Any], columns: Sequence[Any]) -> Any:
        """A Scala list of values under the names, ids and types of as many columns."""
        return self._java.asColumns(_ids(values), _ids(columns))

    def copied(self, node: Any, changed: Mapping[int, Any]) -> Any:
        """A copy of a node with other objects as some of its elements, by position."""
        return self._java.copied(node, " ".join(f"{at}:{value._get_object_id()}" for at, value in changed.items()))

    def _objects(self, told: str) -> list[Any]:
        lines = told.splitlines()
        return [None if line.startswith(_NOTHING) else KnownObject(line, self._client) for line in lines]


def _ids(objects: Sequence[Any]) -> str:
    return " ".join(each._get_object_id() for each in objects)


class _GivenBack:
    """Takes the place of the queue in which Py4J's objects wait to be given back.

    Py4J's own thread gives them back one by one.
    """

    def __init__(self, java: Any, before: Any) -> None:
        self._java = java
        self._before = before
        self._waiting: deque[str] = deque()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="given-back", daemon=True).start()

    def appendleft(self, task: Any) -> None:
        """As the queue has it: a client and an id, or a word that ends it.

        Called from anywhere, within finalizers too.
        """
        if task == SHUTDOWN_FINALIZER_WORKER:
            self._ended.set()
            self._before.appendleft(task)
        elif task[1].startswith(_NUMBERED) and not self._ended.is_set():
            self._waiting.append(task[1])

    def _run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GIVEN_BACK_MAX))]
            try:
                if taken:
                    self._java.release(" ".join(taken))
                    failures = 0
            except Exception:  # noqa: BLE001 - mostly the JVM is gone, and its objects with it; if not, they are tried again
                failures += 1
                self._waiting.extend(taken)
                if failures == _TRIES_MAX:
                    self._ended.set()
                time.sleep(_PAUSE_S)
            if len(taken) < _GIVEN_BACK_MAX:
                # Anyone who appends may be a finalizer, which must not take the locks of what could be waited for.
                time.sleep(_PAUSE_S)


_READERS: WeakKeyDictionary[GatewayClient, TreeReader] = WeakKeyDictionary()
_MAKING = threading.Lock()


def reader_of(client: GatewayClient) -> TreeReader:
    """The reader of the JVM behind a client.

    There is one, for Py4J takes classes of one name for the same.
    """
    found = _READERS.get(client)
    if found is None:
        with _MAKING:
            found = _READERS.get(client) or _READERS.setdefault(client, TreeReader(client))
    return found

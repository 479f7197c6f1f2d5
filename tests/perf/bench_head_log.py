"""The page of a dataset's head log.

Hand-overs are looked for in the whole log.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/bench_head_log.py [--entries 100000]

Prints milliseconds of one page beside those of a log of one entry, on SQLite.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.model.heads.head_log import SignedMove
from odfabric.settings import Settings
from odfabric.testing.conformance.datasets.head_logs import entry_after
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.perf.chains.bench_rebuild import write_chain

PAGE_ENTRIES = 10_000


def page_ms(node: Node) -> float:
    entry = node.datasets.page(after=None, limit=1)[0]
    started = time.perf_counter()
    node.heads.described(entry)
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(workspace=Path(folder))
        write_chain(Path(folder), 3)
        prepare_workspace(settings)
        with open_node(settings, engine=MemoryEngine(Path(folder) / "exchange")) as node:
            list(node.objects.rebuild(adopt=False))
            entry = node.datasets.page(after=None, limit=1)[0]
            logs, head = node.ports.head_logs, node.datasets.head(entry).hash
            last = entry_after(None, entry.id, head)
            logs.add(entry.id, [last])
            page_ms(node)
            short = page_ms(node)
            while last.move.sequence + 1 < entries:
                more: list[SignedMove] = []
                for _ in range(min(PAGE_ENTRIES, entries - last.move.sequence - 1)):
                    last = entry_after(last, entry.id, head)
                    more.append(last)
                logs.add(entry.id, more)
            long = min(page_ms(node) for _ in range(3))
    print(f"a page of the head log: {short:.0f} ms of 1 entry, {long:.0f} ms of {entries:,}")


if __name__ == "__main__":
    main()

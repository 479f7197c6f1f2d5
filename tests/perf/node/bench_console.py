"""How long pages take: browse and search many datasets, a wide one, a long one.

    ODF_BENCH_DATASETS=10000 .odf/venv/bin/python -m tests.perf.node.bench_console

One process with the embedded stores (SQLite, a folder), asked over the loopback; p50 and p95 of each page in
milliseconds, beside the same look at the catalog without a page. First requests of each dataset are counted apart: they fold its chain.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.domain.people.dataset_search import Narrowing
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.garbage import keep_for_good
from odfabric.model.identity import DatasetAlias, Name
from odfabric.settings import Settings
from odfabric.usecases.people.sign_in import open_session
from odfabric.wiring import Node, open_node, prepare_workspace
from odfabric_api.bodies.search_request import ChangedWithin
from odfabric_api.sessions import PLAIN_COOKIE
from tests.perf.many_datasets import ManyDatasets, local_and_others
from tests.services.api.serving import serving

DATASETS = int(os.environ.get("ODF_BENCH_DATASETS", "1000"))
REPEATS = 40
WIDE_COLUMNS = 1000
PATHS = (
    "/",
    "/?sort=name",
    "/?sort=size&page=40",
    "/?q=station-00",
    "/?q=b",
    "/?q=bart+beirt&kind=root",
    "/?keyword=bart",
    "/?license=cc0-1.0&changed=year",
    "/-/datasets.atom?q=bart",
    "/datasets?q=bart&limit=100",
    "/local",
)
OWN_PATHS = ("/local/station-00000", "/local/station-00000/-/lineage", "/local/wide")


def manifest(name: str, columns: int) -> str:
    fields = "\n".join(f"        - {{name: c{number}, type: String}}" for number in range(columns))
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: NdJson
      schema:
        fields:
        - {{name: event_time, type: Timestamp}}
{fields}
    merge: {{kind: Append}}
"""


def measured(label: str, act: Callable[[], object], repeats: int = REPEATS) -> None:
    """Print the first, p50, p95 in ms, and the median CPU time of server plus client."""
    wall, busy = [], []
    for _ in range(repeats + 1):
        started, worked = time.perf_counter(), time.process_time()
        act()
        wall.append((time.perf_counter() - started) * 1000)
        busy.append((time.process_time() - worked) * 1000)
    shown = (*percentiles(wall), statistics.median(busy[1:]))
    print(f"{label:<48}" + "".join(f"{each:9.1f}" for each in shown), flush=True)


def percentiles(taken: list[float]) -> tuple[float, float, float]:
    """The first, and p50 and p95 of the others."""
    return taken[0], statistics.median(taken[1:]), statistics.quantiles(taken[1:], n=20)[-1]


def timed(label: str, act: Callable[[], object]) -> None:
    started = time.perf_counter()
    act()
    print(f"{label} in {time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(workspace=Path(folder) / "w", account_datasets_max=DATASETS + 10)
        prepare_workspace(settings)
        with open_node(settings) as node:
            many = ManyDatasets(node, settings.workspace / "objects", local_and_others(node, 9))
            timed(f"{DATASETS} datasets made", lambda: [many.make(number) for number in range(DATASETS)])
            (wide,) = parse_snapshots(manifest("wide", WIDE_COLUMNS), limits=node.manifest_limits)
            node.datasets.create(wide, node.operator)
            operator = node.operator
            entry = node.datasets.resolve(DatasetAlias(LOCAL_ACCOUNT, Name("station-00000")))
            print(f"{'page':<48}    first      p50      p95      cpu  ms")
            measured("(lineage, nothing derived)", lambda: node.browsing.lineage(entry, depth=1, by=operator), 3)
            timed("search caught up", node.searching.catch_up)
            measured("(lineage)", lambda: node.browsing.lineage(entry, depth=1, by=operator))
            measured("(the catalog alone)", lambda: node.browsing.search(limit=25, by=operator))
            since = [each.since(node.ports.clock.now()) for each in ChangedWithin]
            measured(
                "(counts of facets alone)",
                lambda: node.browsing.facets(Narrowing(), since=since, limit=12, by=operator),
            )
            keep_for_good()  # as the api's process does
            with serving(node) as served:
                for name in ("local", "bench-03", None):
                    ask_as(node, served.url, name)


def ask_as(node: Node, url: str, name: str | None) -> None:
    """Measure pages as somebody sees them; None is a stranger."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        if name is not None:
            account = node.ports.accounts.by_name(Name(name))
            assert account is not None
            session = open_session(account, how="bench", device="bench", address=None, ports=node.people)
            client.cookies.set(PLAIN_COOKIE, session.text)
        for path in PATHS + OWN_PATHS if name == "local" else PATHS[:5]:
            measured(f"{name or 'stranger'} {path}", lambda path=path: client.get(path).raise_for_status())  # type: ignore[misc]


if __name__ == "__main__":
    main()

"""How long pages take: browse and search among many datasets, a wide dataset, a long one.

    ODF_BENCH_DATASETS=10000 .odf/venv/bin/python -m tests.perf.bench_console

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

from odfabric.domain.access import LOCAL_ACCOUNT
from odfabric.formats.manifest_yaml import parse_snapshots
from odfabric.model.credential import TokenKind
from odfabric.settings import Settings
from odfabric.usecases.people.sign_in import open_session
from odfabric.wiring import open_node, prepare_workspace
from odfabric.wiring.browsing import Search
from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.serving import serving

DATASETS = int(os.environ.get("ODF_BENCH_DATASETS", "1000"))
REPEATS = 40
WIDE_COLUMNS = 1000
PATHS = ("/", "/?sort=name", "/?q=station-00", "/?q=99&kind=root", "/local", "/local/station-00001", "/local/wide")


def manifest(name: str, columns: int) -> str:
    fields = "\n".join(f"        - {{name: c{number}, type: String}}" for number in range(columns))
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: SetInfo
    description: Readings of station {name}
    keywords: [weather, hourly]
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


def measured(act: Callable[[], object]) -> tuple[float, float, float]:
    """First, p50 and p95 in milliseconds."""
    seconds = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        act()
        seconds.append((time.perf_counter() - started) * 1000)
    rest = seconds[1:]
    return seconds[0], statistics.median(rest), statistics.quantiles(rest, n=20)[-1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(workspace=Path(folder) / "w", account_datasets_max=DATASETS + 10)
        prepare_workspace(settings)
        with open_node(settings) as node:
            started = time.perf_counter()
            for number in range(DATASETS):
                (snapshot,) = parse_snapshots(manifest(f"station-{number:05}", 1), limits=node.manifest_limits)
                node.create(snapshot, node.operator)
            (wide,) = parse_snapshots(manifest("wide", WIDE_COLUMNS), limits=node.manifest_limits)
            node.create(wide, node.operator)
            print(f"{DATASETS} datasets made in {time.perf_counter() - started:.0f} s")
            account = node.ports.accounts.by_name(LOCAL_ACCOUNT)
            assert account is not None
            session = open_session(account, how="bench", device="bench", address=None, ports=node.people)
            assert session.token.kind is TokenKind.SESSION
            operator = node.operator

            def bare() -> None:
                node.browsing.search(Search(newest=True, limit=25), by=operator)

            rows = {"(the catalog alone)": measured(bare)}
            with serving(node) as served, httpx.Client(base_url=served.url, trust_env=False, timeout=60) as client:
                client.cookies.set(PLAIN_COOKIE, session.text)
                for path in PATHS:
                    rows[path] = measured(lambda path=path: client.get(path).raise_for_status())  # type: ignore[misc]
            print(f"{'page':<28} {'first':>8} {'p50':>8} {'p95':>8}  ms")
            for path, (first, middle, late) in rows.items():
                print(f"{path:<28} {first:8.1f} {middle:8.1f} {late:8.1f}")


if __name__ == "__main__":
    main()

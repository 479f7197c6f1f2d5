"""A chart of an answer, drawn by the server.

It needs no script, and its figures are those of the table.

Owns geometry only, in units of the drawing; the template draws. A value that is no number leaves a gap. Not here: which rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 12, 48
TICKS_MAX = 6
LABELS_MAX = 8
LABEL_CHARACTERS_MAX = 18
KINDS = ("bar", "line", "points")
SPREAD_WIDTH, SPREAD_HEIGHT, SPREAD_BAR = 120, 28, 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A value: where it is drawn, where its bar ends, and what is said of it."""

    x: float
    y: float
    base: float
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A line or a label of an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Marks in order; `lines` are the points of unbroken stretches, as SVG has them."""

    kind: str
    x: str
    y: str
    marks: tuple[Mark, ...]
    lines: tuple[str, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    bar_width: float


def numeric_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Columns with at least one number and otherwise only nulls."""
    found = []
    for place, name in enumerate(names):
        values = [row[place] for row in rows if row[place] is not None]
        if values and all(_number(value) is not None for value in values):
            found.append(name)
    return found


def draw_chart(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, kind: str = "bar", x: str = "", y: str = ""
) -> Chart | None:
    """`y` over `x` in the order of the rows.

    Without a wish the last number over the first other column. None if there is no number.
    """
    numbers = numeric_columns(names, rows)
    if not numbers or not rows:
        return None
    upright = y if y in numbers else numbers[-1]
    across = x if x in names else next((name for name in names if name != upright), upright)
    values = [_number(row[names.index(upright)]) for row in rows]
    labels = ["null" if row[names.index(across)] is None else str(row[names.index(across)]) for row in rows]
    least, greatest, step = _scale([value for value in values if value is not None])
    width = (WIDTH - LEFT - RIGHT) / len(rows)

    def place(value: float) -> float:
        return round(TOP + (greatest - value) / (greatest - least) * (HEIGHT - TOP - BOTTOM), 2)

    centres = [round(LEFT + width * (index + 0.5), 2) for index in range(len(rows))]
    base = place(min(max(0.0, least), greatest))
    marks = [
        Mark(centre, place(value), base, f"{label}: {_shown(value)}")
        for centre, value, label in zip(centres, values, labels, strict=True)
        if value is not None
    ]
    return Chart(
        kind=kind if kind in KINDS else KINDS[0],
        x=across,
        y=upright,
        marks=tuple(marks),
        lines=tuple(_stretches(centres, [None if value is None else place(value) for value in values])),
        across=tuple(_labels(centres, labels)),
        up=tuple(Tick(place(value), _shown(value)) for value in _steps(least, greatest, step)),
        bar_width=round(max(1.0, width * 0.8), 2),
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        # Decimals come as texts, so that no digit is lost; a text that only looks like a number is taken for one.
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    if not isinstance(value, int | float | Decimal):
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def _scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Ends of the axis and the step between its lines.

    Round numbers around all values and zero, unless zero is far away.
    """
    least, greatest = min(values), max(values)
    if (least > 0 and least < (greatest - least) * 2) or least == greatest > 0:
        least = 0.0
    if (greatest < 0 and -greatest < (greatest - least) * 2) or least == greatest < 0:
        greatest = 0.0
    if least == greatest:
        greatest = least + 1
    rough = (greatest - least) / TICKS_MAX
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return math.floor(least / step) * step, math.ceil(greatest / step) * step, step


def _steps(least: float, greatest: float, step: float) -> list[float]:
    count = min(round((greatest - least) / step), 2 * TICKS_MAX)
    return [least + step * index for index in range(count + 1)]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def _stretches(across: Sequence[float], up: Sequence[float | None]) -> list[str]:
    found: list[list[str]] = [[]]
    for x, y in zip(across, up, strict=True):
        if y is None:
            found.append([])
        else:
            found[-1].append(f"{x},{y}")
    return [" ".join(points) for points in found if points]


def _labels(centres: Sequence[float], labels: Sequence[str]) -> list[Tick]:
    pause = max(1, math.ceil(len(labels) / LABELS_MAX))
    return [
        Tick(centre, label if len(label) <= LABEL_CHARACTERS_MAX else f"{label[: LABEL_CHARACTERS_MAX - 1]}…")
        for centre, label in list(zip(centres, labels, strict=True))[::pause]
    ]


def draw_spread(text: str | None) -> tuple[Mark, ...]:
    """Bars of the spread of numbers, from a JSON array of `{x, y}`.

    `y` is about how many are at `x`. None and no numbers give no bars.
    """
    found = [(float(each["x"]), float(each["y"])) for each in json.loads(text or "[]")]
    found = [(x, y) for x, y in found if math.isfinite(x) and math.isfinite(y)]
    if not found:
        return ()
    least, most = min(x for x, _ in found), max(x for x, _ in found)
    highest = max(y for _, y in found)
    room = SPREAD_WIDTH - SPREAD_BAR
    width = most / 2 - least / 2  # halves: the distance of two doubles may be beyond all doubles
    return tuple(
        Mark(
            x=round(room * ((x / 2 - least / 2) / width), 1) if width else room / 2,
            y=round(SPREAD_HEIGHT * (1 - y / highest), 1),
            base=SPREAD_HEIGHT,
            text=f"about {y:,.0f} near {x:,.6g}",
        )
        for x, y in found
    )

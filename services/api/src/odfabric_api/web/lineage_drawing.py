"""Layout of a lineage drawing: a column per step, data flows left to right.

Owns coordinates only, in units of the drawing; the template draws.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.usecases.datasets.read_lineage import Lineage

BOX_WIDTH, BOX_HEIGHT = 220, 52
GAP_ACROSS, GAP_DOWN = 70, 20


@dataclass(frozen=True, slots=True)
class Box:
    """A dataset; `x` and `y` are of its upper left corner."""

    entry: CatalogEntry
    x: int
    y: int
    is_centre: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, the paths between them, and the size of it all."""

    boxes: tuple[Box, ...]
    paths: tuple[str, ...]
    width: int
    height: int


def draw(lineage: Lineage, centre: DatasetId) -> Drawing:
    """Boxes of one level stand below each other in order of names.

    Each level is centred.
    """
    levels: dict[int, list[CatalogEntry]] = {}
    for dataset, level in lineage.levels.items():
        levels.setdefault(level, []).append(lineage.entries[dataset])
    tallest = max(len(each) for each in levels.values())
    height = tallest * (BOX_HEIGHT + GAP_DOWN) - GAP_DOWN
    boxes: dict[DatasetId, Box] = {}
    for place, level in enumerate(sorted(levels)):
        entries = sorted(levels[level], key=lambda each: str(each.alias))
        top = (height - len(entries) * (BOX_HEIGHT + GAP_DOWN) + GAP_DOWN) // 2
        for row, entry in enumerate(entries):
            x, y = place * (BOX_WIDTH + GAP_ACROSS), top + row * (BOX_HEIGHT + GAP_DOWN)
            boxes[entry.id] = Box(entry, x, y, entry.id == centre)
    paths = tuple(_path(boxes[edge.source], boxes[edge.target]) for edge in lineage.edges)
    return Drawing(tuple(boxes.values()), paths, len(levels) * (BOX_WIDTH + GAP_ACROSS) - GAP_ACROSS, height)


def _path(source: Box, target: Box) -> str:
    x1, y1 = source.x + BOX_WIDTH, source.y + BOX_HEIGHT // 2
    x2, y2 = target.x, target.y + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"

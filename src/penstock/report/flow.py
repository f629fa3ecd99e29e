"""Draws how rows flow from a stream through slices, groupings and conditions to queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.counts import counted
from penstock.model.duration import about
from penstock.report import svg
from penstock.report.markup import readable, shortened
from penstock.report.wording import condition_words, grouping_words
from penstock.share.explain.explanation import GroupingPlan, JoinPlan, StreamPlan, TreePlan

WIDTH: Final = 980
ROW: Final = 23
GAP: Final = 16  # between two groupings
TOP: Final = 30  # room for the headings
MOST_ROWS: Final = 28
STREAM, SLICES, GROUPINGS, CONDITIONS = (0, 150), (206, 356), (424, 594), (664, 980)  # left and right of each column


@dataclass(frozen=True, slots=True)
class Row:
    """One condition, or several folded into one line."""

    text: str
    queries: int
    title: str


@dataclass(frozen=True, slots=True)
class Block:
    """One grouping with its rows, placed."""

    grouping: GroupingPlan
    rows: tuple[Row, ...]
    top: float
    colour: int

    @property
    def bottom(self) -> float:
        """Return where the block ends."""
        return self.top + ROW * len(self.rows)


def flow(stream: StreamPlan, tree: TreePlan) -> str:
    """Draw the way of the rows; a band is as wide as the number of queries it serves."""
    blocks = _blocks(tree.groupings)
    bottom = max((b.bottom for b in blocks), default=TOP + ROW)
    floor = max(bottom, TOP + 96 + 62 * len(stream.joins))
    parts = [*_headings(), *_source(stream, tree, floor), *_bands(tree, blocks, floor)]
    for block in blocks:
        parts += _block(block)
    label = (
        f"{stream.stream}: one pass over the rows, {counted(len(tree.windows), 'window', 'windows')}, "
        f"{counted(len(tree.groupings), 'grouping', 'groupings')}, {counted(len(tree.queries), 'query', 'queries')}"
    )
    return svg.drawing(WIDTH, round(floor + 8), parts, label=label, style="flow")


def rows_of(grouping: GroupingPlan, most: int) -> tuple[Row, ...]:
    """List the conditions that most queries have; fold the others into one row."""
    ordered = sorted(grouping.conditions, key=lambda c: -len(c.queries))
    kept, rest = (ordered, []) if len(ordered) <= most else (ordered[: most - 1], ordered[most - 1 :])
    rows = [Row(condition_words(c), len(c.queries), readable(c.text)) for c in kept]
    if rest:
        text = counted(len(rest), "more condition", "more conditions")
        rows.append(Row(text, sum(len(c.queries) for c in rest), text))
    return tuple(rows)


def _blocks(groupings: Sequence[GroupingPlan]) -> list[Block]:
    """Place the groupings below each other; with many conditions each shows its largest."""
    most = max(2, MOST_ROWS // max(1, len(groupings)))
    if sum(len(g.conditions) for g in groupings) <= MOST_ROWS:
        most = MOST_ROWS
    blocks, top = list[Block](), float(TOP)
    for number, grouping in enumerate(groupings[: MOST_ROWS // 2]):
        block = Block(grouping, rows_of(grouping, most), top, number % 6)
        blocks.append(block)
        top = block.bottom + GAP
    return blocks


def _headings() -> list[str]:
    """Name the columns."""
    names = (("stream", STREAM), ("slices", SLICES), ("groupings", GROUPINGS), ("conditions and queries", CONDITIONS))
    return [svg.text(column[0], 14, name, "tick") for name, column in names]


def _source(stream: StreamPlan, tree: TreePlan, floor: float) -> list[str]:
    """Draw the stream, the tables joined to it, and the slicing."""
    mean = f"one every {about(tree.mean_slice_us)}" if tree.mean_slice_us else "no edges"
    parts = _node(STREAM, TOP, TOP + 56, stream.stream, [f"{stream.rows_per_second:,.0f} rows/s"])
    for number, join in enumerate(stream.joins):
        top = TOP + 96 + 62 * number
        parts += _join(join, top)
    lines = [counted(len(tree.windows), "window", "windows"), mean, f"{tree.slicing}"]
    parts += _node(SLICES, TOP, max(TOP + 76, floor), "slices", lines)
    queries = counted(len(tree.queries), "query", "queries")
    parts.append(
        svg.band((STREAM[1], TOP, TOP + 56), (SLICES[0], TOP, TOP + 56), "b0", title=f"one pass for {queries}")
    )
    return parts


def _join(join: JoinPlan, top: float) -> list[str]:
    """Draw a table and its way into the slices."""
    on = ", ".join(readable(k) for k in join.keys)
    node = _node(STREAM, top, top + 46, join.table, [f"table, by {on}"], style="node table")
    joined = svg.band((STREAM[1], top + 18, top + 28), (SLICES[0], top + 18, top + 28), "b5", title="joined once")
    return [joined, *node]


def _bands(tree: TreePlan, blocks: Sequence[Block], floor: float) -> list[str]:
    """Draw the bands from the slices to the groupings."""
    total = sum(len(b.grouping.queries) for b in blocks) or 1
    parts, y, height = [], float(TOP), max(TOP + 76, floor) - TOP
    for block in blocks:
        queries = len(block.grouping.queries)
        share = height * queries / total
        title = counted(queries, "query", "queries")
        left, right = (SLICES[1], y, y + share), (GROUPINGS[0], block.top + 2, block.bottom - 2)
        parts.append(svg.band(left, right, f"b{block.colour}", title=title))
        y += share
    return parts


def _block(block: Block) -> list[str]:
    """Draw one grouping and its conditions."""
    queries = len(block.grouping.queries)
    by = grouping_words(block.grouping)
    lines = [counted(queries, "query", "queries")] if len(block.rows) > 1 else []
    parts = _node(GROUPINGS, block.top + 2, block.bottom - 2, by, lines, style=f"node n{block.colour}")
    most = max(r.queries for r in block.rows)
    y, height = block.top + 2, block.bottom - block.top - 4
    for number, row in enumerate(block.rows):
        share, middle = height * row.queries / max(1, queries), block.top + ROW * (number + 0.5)
        half = max(1.0, (ROW - 7) / 2 * row.queries / max(1, most))
        left, right = (GROUPINGS[1], y, y + share), (CONDITIONS[0], middle - half, middle + half)
        words = counted(row.queries, "query", "queries")
        parts.append(svg.band(left, right, f"b{block.colour}", title=f"{row.title}: {words}"))
        parts.append(svg.text(CONDITIONS[0] + 8, middle + 4, shortened(row.text, 36), "name", title=row.title))
        parts.append(svg.text(CONDITIONS[1], middle + 4, words, "value", anchor="end"))
        y += share
    return parts


def _node(
    column: tuple[int, int], top: float, bottom: float, name: str, lines: Sequence[str], *, style: str = "node"
) -> list[str]:
    """Draw a box with a name and lines under it, in the middle of its height."""
    left, right = column
    fitting = lines[: max(0, int((bottom - top - 20) // 16))]
    y = (top + bottom) / 2 + 4 - 8 * len(fitting)
    most = int((right - left - 16) / 6.9)
    parts = [svg.rect(left, top, right - left, bottom - top, style, radius=5, title=name)]
    parts.append(svg.text((left + right) / 2, y, shortened(name, most), "strong", anchor="middle", title=name))
    for number, words in enumerate(fitting, 1):
        parts.append(svg.text((left + right) / 2, y + 16 * number, shortened(words, most + 2), "tick", anchor="middle"))
    return parts

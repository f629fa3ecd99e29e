"""Draws the edges of a tree's windows above the slices that they share, along a ruler of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.model.counts import counted
from penstock.model.duration import about, format_duration
from penstock.model.window import Window
from penstock.report import svg
from penstock.report.ticks import length_labels, time_ticks
from penstock.share.explain.explanation import TreePlan
from penstock.share.slices import SliceManager, edges_of

MOST_WINDOWS: Final = 6
MOST_SLICES: Final = 120  # at 360 pixels a slice is still three wide
MOST_MARKS: Final = 60  # edges of one window that are drawn
ROW: Final = 38
SLICES: Final = 22


@dataclass(frozen=True, slots=True)
class RulerSpan:
    """A stretch of time from 0, as wide as the drawing."""

    length_us: int

    def across(self, time_us: int) -> float:
        """Place a time in percent, within the drawing."""
        return min(100.0, max(0.0, 100.0 * time_us / self.length_us))


def ruler(tree: TreePlan) -> str:
    """Draw some windows with their edges, and under them the slices that all windows of the tree share."""
    manager = SliceManager(tree.windows, tree.slicing)
    users = Counter(q.window for q in tree.queries)
    chosen = _chosen(users)
    stretch = RulerSpan(_length(chosen, tree))
    floor = ROW * len(chosen) + 20
    parts = [part for row, w in enumerate(chosen) for part in _guides(stretch, w, row * ROW, floor)]
    bounds = _bounds(manager, stretch)
    parts += _slices(stretch, bounds, floor)
    for row, window in enumerate(chosen):
        parts += _window(stretch, window, row, row * ROW, users[window], tree)
    words = f"{counted(len(bounds) - 1, 'slice', 'slices')} in {about(stretch.length_us)}, each aggregated once"
    parts.append(svg.text(0, floor - 6, words, "name halo"))
    parts += _axis(stretch, floor + SLICES)
    label = f"{counted(len(tree.windows), 'window', 'windows')} over {words}"
    more = len(tree.windows) - len(chosen)
    others = f"and {counted(more, 'more window', 'more windows')}, made of the same slices"
    return svg.strip(floor + SLICES + 26, parts, label=label) + (f'<p class="note">{others}</p>' if more else "")


def evaluation(window: Window, length_us: int) -> tuple[int, int]:
    """Choose the window to show in a stretch from 0: the last that ends in it, or else one that lies over it."""
    end = window.end_at_or_after(length_us)
    if end > length_us and end - window.slide > 0:
        end -= window.slide
    return end - window.length, end


def _chosen(users: Counter[Window]) -> list[Window]:
    """Choose the windows that most queries have, and list them from short to long."""
    often = sorted(users, key=lambda w: (-users[w], w))
    return sorted(often[:MOST_WINDOWS])


def _length(chosen: list[Window], tree: TreePlan) -> int:
    """Choose a stretch that holds the longest window shown, if that does not make slices too narrow."""
    wanted = max((w.length + w.slide for w in chosen), default=1)
    mean = tree.mean_slice_us or wanted
    shortest = min((w.slide for w in chosen), default=1)
    return max(1, min(wanted, max(MOST_SLICES * mean, min(shortest, wanted))))


def _guides(stretch: RulerSpan, window: Window, top: float, floor: float) -> list[str]:
    """Draw where the shown evaluation's ends fall among the slices."""
    ends = [t for t in evaluation(window, stretch.length_us) if 0 <= t <= stretch.length_us]
    places = [f"{stretch.across(t):.3f}%" for t in ends]
    return [svg.line(x, top + 30, x, floor, "guide") for x in places]


def _window(stretch: RulerSpan, window: Window, row: int, top: float, users: int, tree: TreePlan) -> list[str]:
    """Draw one window: its name, its edges, and one evaluation as a bar."""
    start, end = evaluation(window, stretch.length_us)
    left, right = stretch.across(start), stretch.across(end)
    colour = row % 6
    long, later = format_duration(window.length), format_duration(window.slide)
    title, width = f"one evaluation, {long} long, the next {later} later", max(0.4, right - left)
    parts = [
        svg.text(0, top + 13, f"{window} · {counted(users, 'query', 'queries')}", "name halo"),
        svg.line("0%", top + 30, "100%", top + 30, "grid"),
        svg.rect(f"{left:.3f}%", top + 21, f"{width:.3f}%", 9, f"f{colour}", title=title),
    ]
    edges = [p.times(0, stretch.length_us + 1)[:MOST_MARKS] for p in edges_of(window, tree.slicing)]
    times = sorted({int(t) for some in edges for t in some})
    places = [f"{stretch.across(t):.3f}%" for t in times]
    return parts + [svg.line(x, top + 27, x, top + 34, f"mark s{colour}") for x in places]


def _bounds(manager: SliceManager, stretch: RulerSpan) -> list[int]:
    """List the edges of a stretch; its own ends count too."""
    inside = [int(e) for e in manager.edges(1, stretch.length_us)]
    return [0, *inside, stretch.length_us]


def _slices(stretch: RulerSpan, bounds: list[int], floor: float) -> list[str]:
    """Draw the slices as one row of boxes."""
    parts = []
    for number, (left, right) in enumerate(pairwise(bounds)):
        x, width = stretch.across(left), stretch.across(right) - stretch.across(left)
        title = f"a slice of {format_duration(right - left)}"
        parts.append(svg.rect(f"{x:.3f}%", floor, f"{width:.3f}%", SLICES, f"slice{number % 2}", title=title))
    return parts


def _axis(stretch: RulerSpan, top: float) -> list[str]:
    """Write lengths of time below the slices."""
    ticks = time_ticks(0, stretch.length_us, 5)
    parts = [svg.line("0%", top, "100%", top, "axis")]
    for tick, label in zip(ticks, length_labels(ticks), strict=True):
        across = stretch.across(tick)
        anchor = "start" if across < 4 else ("end" if across > 94 else "middle")
        parts.append(svg.line(f"{across:.3f}%", top, f"{across:.3f}%", top + 5, "axis"))
        parts.append(svg.text(f"{across:.3f}%", top + 19, label, "tick", anchor=anchor))
    return parts

"""Draws curves over a number as an SVG chart, with a linear or logarithmic vertical axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from penstock.report import svg
from penstock.report.markup import shortened
from penstock.report.ticks import number_labels, number_ticks, short_number

WIDTH: Final = 440
HEIGHT: Final = 290
COLOURS: Final = 6
MOST_DOTS: Final = 40
RIGHT: Final = 18  # pixels right of the plot, for half of the last number below it
_LETTER: Final = 7.2  # names are mostly capitals, which are wide
_HEAD: Final = 17  # pixels of a chart's own title
_TOUCH: Final = 1.5  # pixels between two curves that look like one


@dataclass(frozen=True, slots=True)
class Curve:
    """A name and points (x, y) from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class AxisScale:
    """How numbers fall on an axis."""

    low: float
    high: float
    start: float
    end: float
    powers: bool = False

    def at(self, value: float) -> float:
        """Place a number."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.powers else (self.low, self.high)
        place = math.log10(max(value, self.low)) if self.powers else value
        return self.start + (place - low) / ((high - low) or 1.0) * (self.end - self.start)


def curve_chart(
    title: str, curves: Sequence[Curve], *, across: str, upward: str, powers: bool = False, headed: bool = True
) -> str:
    """Draw curves with a legend; a curve on top of an earlier one is broken, the seventh and later ones are dashed.

    Without a head the title is left to whoever shows the chart; readers of its description still hear it.
    """
    curves = [Curve(c.name, tuple(p for p in c.points if math.isfinite(p[1]))) for c in curves]
    xs, ys = ([p[i] for c in curves for p in c.points] for i in (0, 1))
    ys = [0.0 if abs(y) < 1e-12 else y for y in ys]  # what rounding left of nothing is nothing
    if not xs:
        return svg.drawing(
            WIDTH, 60, [svg.text(2, 15, title, "title"), svg.text(2, 40, "no values", "tick")], label=title
        )
    powers = powers and min(ys) > 0
    head = _HEAD if headed else 0
    ticks, labels = marks_upward(ys, powers)
    left, rows = 12 + _LETTER * max(map(len, labels)), len(_legend([c.name for c in curves], head))
    horizontal = AxisScale(min(xs), max(xs), left, WIDTH - RIGHT)
    vertical = AxisScale(ticks[0], ticks[-1], HEIGHT - 44, head + 28 + 16 * rows, powers)
    places = [[(horizontal.at(x), vertical.at(y)) for x, y in c.points] for c in curves]
    styles = [_style(number, places) for number in range(len(places))]
    parts = [svg.text(2, 15, shortened(title, 52), "title", title=title)] if headed else []
    parts.append(svg.text(2, head + 15, upward, "tick"))
    parts += [part for row in _legend([c.name for c in curves], head, styles) for part in row]
    parts += grid(vertical, ticks, labels, left) + _marks_across(horizontal, across)
    for number, curve in enumerate(curves):
        parts += _curve(curve, places[number], number, styles[number])
    label = "; ".join(
        f"{c.name} from {short_number(c.points[0][1])} to {short_number(c.points[-1][1])}" for c in curves if c.points
    )
    return svg.drawing(WIDTH, HEIGHT, parts, label=f"{title}, {upward} over {across}: {label}")


def marks_upward(values: Sequence[float], powers: bool) -> tuple[list[float], list[str]]:
    """Choose the marks of the vertical axis, and how they read."""
    if not powers:
        ticks = number_ticks(min(0.0, *values), max(values))
        return ticks, number_labels(ticks)
    ticks = powers_of_ten(min(values), max(values))
    return ticks, [short_number(t).replace(".00", "").replace(".0", "") if t >= 1 else f"{t:g}" for t in ticks]


def grid(scale: AxisScale, ticks: Sequence[float], labels: Sequence[str], left: float) -> list[str]:
    """Draw a thin line and a label for each mark of the vertical axis."""
    parts = []
    for tick, label in zip(ticks, labels, strict=True):
        y = scale.at(tick)
        parts.append(svg.line(left, y, WIDTH - RIGHT, y, "axis" if tick == ticks[0] else "grid"))
        parts.append(svg.text(left - 6, y + 4, label, "tick", anchor="end"))
    return parts


def _style(number: int, places: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Choose how a curve is drawn: in pieces where it lies on earlier ones, the shorter the more there are."""
    under = sum(_alike(places[number], other) for other in places[:number])
    pieces = f" over{min(under, 2)}" if under else (" dash" if number >= COLOURS else "")
    return f"line s{number % COLOURS}{pieces}"


def _alike(places: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """Tell whether two curves lie on top of each other nearly everywhere, so that the later one hides the earlier."""
    if len(places) < 2 or [x for x, _ in places] != [x for x, _ in other]:
        return False
    near = sum(abs(y - z) <= _TOUCH for (_, y), (_, z) in zip(places, other, strict=True))
    return near >= 0.9 * len(places)


def _marks_across(scale: AxisScale, across: str) -> list[str]:
    """Write numbers and the name of the axis below the plot."""
    ticks = [t for t in number_ticks(scale.low, scale.high, 7) if scale.low - 1e-12 <= t <= scale.high * (1 + 1e-9)]
    ticks = ticks or [scale.low]
    parts = [svg.text((scale.start + scale.end) / 2, HEIGHT - 6, across, "tick", anchor="middle")]
    for tick, label in zip(ticks, number_labels(ticks), strict=True):
        x = scale.at(tick)
        parts.append(svg.line(x, HEIGHT - 44, x, HEIGHT - 40, "axis"))
        parts.append(svg.text(x, HEIGHT - 26, label, "tick", anchor="middle"))
    return parts


def _curve(curve: Curve, places: Sequence[tuple[float, float]], number: int, style: str) -> list[str]:
    """Draw one curve, with a mark at each point if there are few."""
    colour = number % COLOURS
    parts = [svg.polyline(places, style)]
    if len(places) <= MOST_DOTS:
        for (x, y), (left, top) in zip(curve.points, places, strict=True):
            words = f"{curve.name}, {short_number(x)}: {short_number(y)}"
            parts.append(svg.dot(left, top, 2.4 if len(places) > 1 else 4, f"f{colour}", title=words))
    return parts


def powers_of_ten(low: float, high: float) -> list[float]:
    """Mark a stretch at powers of ten that enclose it."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**p for p in range(first, max(last, first + 1) + 1)]


def _legend(names: Sequence[str], head: int, styles: Sequence[str] = ()) -> list[list[str]]:
    """Lay the names out in rows, each beside a piece of its line."""
    rows: list[list[str]] = [[]]
    x = 2.0
    for name, style in zip_longest(names, styles, fillvalue=""):
        words = shortened(name, 30)
        width = 26 + _LETTER * len(words) + 10
        if x + width > WIDTH and rows[-1]:
            rows.append([])
            x = 2.0
        y = head + 15 + 16 * len(rows)
        rows[-1].append(svg.line(x, y - 4, x + 20, y - 4, style))
        rows[-1].append(svg.text(x + 25, y, words, "tick", title=name))
        x += width
    return rows

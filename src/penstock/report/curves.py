"""Curves over a number come in, a chart as SVG goes out: axes named, the vertical one by powers of ten if asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.report import svg
from penstock.report.markup import shortened
from penstock.report.ticks import number_labels, number_ticks, short_number

WIDTH: Final = 440
HEIGHT: Final = 290
COLOURS: Final = 6
MOST_DOTS: Final = 40
_LETTER: Final = 6.6


@dataclass(frozen=True, slots=True)
class Curve:
    """A name and points (x, y) from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class _Scale:
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
    """Draw curves with a legend; the seventh and later ones are dashed in the colours of the first.

    Without a head the title is left to whoever shows the chart; readers of its description still hear it.
    """
    curves = [Curve(c.name, tuple(p for p in c.points if math.isfinite(p[1]))) for c in curves]
    xs, ys = ([p[i] for c in curves for p in c.points] for i in (0, 1))
    if not xs:
        return svg.drawing(
            WIDTH, 60, [svg.text(2, 15, title, "title"), svg.text(2, 40, "no values", "tick")], label=title
        )
    powers = powers and min(ys) > 0
    legend = _legend([c.name for c in curves])
    ticks = _powers_of_ten(min(ys), max(ys)) if powers else number_ticks(min(0.0, *ys), max(ys))
    labels = [short_number(t) if t >= 1 else f"{t:g}" for t in ticks] if powers else number_labels(ticks)
    left, top = 12 + _LETTER * max(map(len, labels)), 40 + 16 * len(legend)
    horizontal = _Scale(min(xs), max(xs), left, WIDTH - 14)
    vertical = _Scale(ticks[0], ticks[-1], HEIGHT - 44, top, powers)
    parts = [svg.text(2, 15, shortened(title, 52), "title", title=title)] if headed else []
    parts.append(svg.text(2, 32, upward, "tick"))
    parts += [part for row in legend for part in row]
    for tick, label in zip(ticks, labels, strict=True):
        y = vertical.at(tick)
        parts.append(svg.line(left, y, WIDTH - 14, y, "axis" if tick == ticks[0] else "grid"))
        parts.append(svg.text(left - 6, y + 4, label, "tick", anchor="end"))
    parts += _marks_across(horizontal, across)
    for number, curve in enumerate(curves):
        parts += _curve(curve, number, horizontal, vertical)
    label = "; ".join(
        f"{c.name} from {short_number(c.points[0][1])} to {short_number(c.points[-1][1])}" for c in curves if c.points
    )
    return svg.drawing(WIDTH, HEIGHT, parts, label=f"{title}, {upward} over {across}: {label}")


def _marks_across(scale: _Scale, across: str) -> list[str]:
    """Write numbers and the name of the axis below the plot."""
    ticks = [t for t in number_ticks(scale.low, scale.high, 7) if scale.low - 1e-12 <= t <= scale.high * (1 + 1e-9)]
    ticks = ticks or [scale.low]
    parts = [svg.text((scale.start + scale.end) / 2, HEIGHT - 6, across, "tick", anchor="middle")]
    for tick, label in zip(ticks, number_labels(ticks), strict=True):
        x = scale.at(tick)
        parts.append(svg.line(x, HEIGHT - 44, x, HEIGHT - 40, "axis"))
        parts.append(svg.text(x, HEIGHT - 26, label, "tick", anchor="middle"))
    return parts


def _curve(curve: Curve, number: int, across: _Scale, upward: _Scale) -> list[str]:
    """Draw one curve, with a mark at each point if there are few."""
    colour, dash = number % COLOURS, " dash" if number >= COLOURS else ""
    places = [(across.at(x), upward.at(y)) for x, y in curve.points]
    parts = [svg.polyline(places, f"line s{colour}{dash}")]
    if len(places) <= MOST_DOTS:
        for (x, y), (left, top) in zip(curve.points, places, strict=True):
            words = f"{curve.name}, {short_number(x)}: {short_number(y)}"
            parts.append(svg.dot(left, top, 2.4, f"f{colour}", title=words))
    return parts


def _powers_of_ten(low: float, high: float) -> list[float]:
    """Mark a stretch at powers of ten that enclose it."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**p for p in range(first, max(last, first + 1) + 1)]


def _legend(names: Sequence[str]) -> list[list[str]]:
    """Lay the names out in rows, each beside a piece of its line."""
    rows: list[list[str]] = [[]]
    x = 2.0
    for number, name in enumerate(names):
        words = shortened(name, 30)
        width = 26 + _LETTER * len(words) + 10
        if x + width > WIDTH and rows[-1]:
            rows.append([])
            x = 2.0
        y = 32 + 16 * len(rows)
        dash = " dash" if number >= COLOURS else ""
        rows[-1].append(svg.line(x, y - 4, x + 20, y - 4, f"line s{number % COLOURS}{dash}"))
        rows[-1].append(svg.text(x + 25, y, words, "tick", title=name))
        x += width
    return rows

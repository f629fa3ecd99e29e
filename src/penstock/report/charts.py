"""Draws small SVG charts: lines over time, columns, and bars that compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.report import svg
from penstock.report.markup import shortened
from penstock.report.ticks import number_labels, number_ticks, short_number, time_labels, time_ticks

# Drawn at the size in which they are mostly shown, so that letters keep theirs.
WIDTH: Final = 440
HEIGHT: Final = 250
COLOURS: Final = 6  # classes c0 … c5 of the page's style
MOST_DOTS: Final = 80  # points of a line that get a mark with their value
_LETTER: Final = 6.6  # mean width of a letter at the charts' size


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a name and points (time in microseconds since the epoch, value); NaN breaks the line."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """One column: its label below, its value, and whether it is set apart from the others."""

    label: str
    value: float
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a comparison: what it is, its value, how the value reads, and whether it was measured."""

    label: str
    value: float
    words: str
    measured: bool = True
    colour: int = 0
    instead: str = "not measured"  # said of a value that was not measured


@dataclass(frozen=True, slots=True)
class _Plot:
    """The rectangle inside the axes, and how values fall into it."""

    left: float
    right: float
    top: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """Place a value across."""
        return self.left + (value - self.x_low) / (self.x_high - self.x_low or 1) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Place a value upwards."""
        return self.bottom - (value - self.y_low) / (self.y_high - self.y_low or 1) * (self.bottom - self.top)


def line_chart(title: str, series: Sequence[Series], *, unit: str, from_zero: bool = True) -> str:
    """Draw lines over time, with a legend if there are several."""
    kept = [Series(s.name, tuple(p for p in s.points)) for s in series[:COLOURS] if s.points]
    values = [v for s in kept for _, v in s.points if math.isfinite(v)]
    if not values:
        return _empty(title)
    times = [t for s in kept for t, _ in s.points]
    low, high = min(times), max(times)
    ticks = number_ticks(min(values + [0.0] * from_zero), max(values + [0.0] * from_zero))
    legend = _legend([s.name for s in kept]) if len(kept) > 1 else []
    top = 44 + 22 * len(legend)
    plot = _plot(ticks, top, low, max(high, low + 1))
    parts = [*_heading(title, unit), *(part for row in legend for part in row), *_value_axis(plot, ticks)]
    for tick, label in zip(*_time_axis(low, high), strict=True):
        parts += _time_mark(plot, tick, label)
    for number, one in enumerate(kept):
        parts += _line(plot, one, number, unit)
    return svg.drawing(WIDTH, HEIGHT, parts, label=_described(title, unit, kept))


def column_chart(title: str, columns: Sequence[ChartColumn], *, unit: str, across: str) -> str:
    """Draw a column for each value; columns set apart are outlined only."""
    if not columns:
        return _empty(title)
    ticks = number_ticks(0.0, max(c.value for c in columns))
    plot = _plot(ticks, 44, 0, len(columns))
    every = max(1, -(-len(columns) // 13))
    parts = [*_heading(title, unit), *_value_axis(plot, ticks)]
    for number, column in enumerate(columns):
        left, right = plot.x(number + 0.12), plot.x(number + 0.88)
        words = f"{across} {column.label}: {short_number(column.value)} {unit}"
        top = plot.y(column.value)
        parts.append(
            svg.rect(left, top, right - left, plot.bottom - top, "apart" if column.apart else "f0", title=words)
        )
        if number % every == 0:
            parts.append(svg.text((left + right) / 2, plot.bottom + 16, column.label, "tick", anchor="middle"))
    parts.append(svg.text((plot.left + plot.right) / 2, HEIGHT - 4, across, "tick", anchor="middle"))
    described = f"{title}: {len(columns)} values, highest {short_number(max(c.value for c in columns))} {unit}"
    return svg.drawing(WIDTH, HEIGHT, parts, label=described)


def bar_chart(title: str, bars: Sequence[Bar], *, unit: str) -> str:
    """Draw bars below each other; what was not measured is outlined, not filled."""
    if not bars:
        return _empty(title)
    greatest = max(b.value for b in bars) or 1.0
    parts, y = _heading(title, unit), 44.0
    for bar in bars:
        words = f"{bar.words}{'' if bar.measured else f', {bar.instead}'}"
        length = max(2.0, bar.value / greatest * (WIDTH - 4))
        style = f"f{bar.colour}" if bar.measured else f"apart s{bar.colour}"
        parts.append(svg.text(2, y + 12, shortened(bar.label, 46), "name", title=bar.label))
        parts.append(svg.text(WIDTH - 2, y + 12, words, "value", anchor="end"))
        parts.append(svg.rect(2, y + 19, length, 15, style, title=f"{bar.label}: {words}", radius=2))
        y += 46
    described = f"{title}: " + "; ".join(f"{b.label} {b.words}" for b in bars)
    return svg.drawing(WIDTH, round(y) + 8, parts, label=described)


def _plot(ticks: Sequence[float], top: float, x_low: float, x_high: float) -> _Plot:
    """Leave room for the axes' labels."""
    left = 10 + _LETTER * max(len(label) for label in number_labels(ticks))
    return _Plot(left, WIDTH - 12, top, HEIGHT - 38, x_low, x_high, ticks[0], ticks[-1])


def _heading(title: str, unit: str) -> list[str]:
    """Write the title and the unit of the values."""
    most = int(WIDTH / (_LETTER * 1.1))
    return [svg.text(2, 15, shortened(title, most), "title", title=title), svg.text(2, 32, unit, "tick")]


def _value_axis(plot: _Plot, ticks: Sequence[float]) -> list[str]:
    """Draw a thin line and a label for each mark."""
    parts, ground = [], 0.0 if ticks[0] <= 0 <= ticks[-1] else ticks[0]
    for tick, label in zip(ticks, number_labels(ticks), strict=True):
        style = "axis" if tick == ground else "grid"
        parts.append(svg.line(plot.left, plot.y(tick), plot.right, plot.y(tick), style))
        parts.append(svg.text(plot.left - 6, plot.y(tick) + 4, label, "tick", anchor="end"))
    return parts


def _time_axis(low: int, high: int) -> tuple[list[int], list[str]]:
    """Choose the marks of a stretch of time; one instant is a mark of its own."""
    ticks = time_ticks(low, high) if high > low else [low]
    return ticks, time_labels(ticks)


def _time_mark(plot: _Plot, tick: int, label: str) -> list[str]:
    """Draw one mark below the plot; a label at the right end stays inside."""
    x = plot.x(tick)
    half = len(label) * _LETTER / 2
    return [
        svg.line(x, plot.bottom, x, plot.bottom + 4, "axis"),
        svg.text(min(max(x, half), WIDTH - half), plot.bottom + 18, label, "tick", anchor="middle"),
    ]


def _line(plot: _Plot, series: Series, number: int, unit: str) -> list[str]:
    """Draw one line in pieces between gaps, with a mark at each point if there are few."""
    parts, piece = [], list[tuple[float, float]]()
    for time, value in [*series.points, (0, math.nan)]:
        if math.isfinite(value):
            piece.append((plot.x(time), plot.y(value)))
        elif piece:
            parts.append(svg.polyline(piece, f"line s{number}"))
            piece = []
    if len(series.points) <= MOST_DOTS:
        finite = [(t, v) for t, v in series.points if math.isfinite(v)]
        for (time, value), label in zip(finite, time_labels([t for t, _ in finite]), strict=True):
            words = f"{series.name}, {label}: {short_number(value)} {unit}"
            parts.append(svg.dot(plot.x(time), plot.y(value), 2.4, f"f{number}", title=words))
    return parts


def _legend(names: Sequence[str]) -> list[list[str]]:
    """Lay out the names of lines in rows."""
    rows: list[list[str]] = [[]]
    x = 2.0
    for number, name in enumerate(names):
        words = shortened(name, 24)
        width = 18 + _LETTER * len(words) + 12
        if x + width > WIDTH and rows[-1]:
            rows.append([])
            x = 2.0
        y = 36 + 16 * len(rows)
        rows[-1] += [
            svg.rect(x, y - 9, 10, 10, f"f{number}", radius=2),
            svg.text(x + 15, y, words, "tick", title=name),
        ]
        x += width
    return rows


def _described(title: str, unit: str, series: Sequence[Series]) -> str:
    """Say in words what a line chart shows."""
    spans = []
    for one in series:
        values = [v for _, v in one.points if math.isfinite(v)]
        if values:
            spans.append(f"{one.name} from {short_number(min(values))} to {short_number(max(values))}")
    return f"{title}, {unit}: {'; '.join(spans)}"


def _empty(title: str) -> str:
    """Draw a chart that has nothing to show."""
    parts = [svg.text(2, 15, shortened(title, 60), "title"), svg.text(2, 40, "no values", "tick")]
    return svg.drawing(WIDTH, 60, parts, label=f"{title}: no values")

"""Draws an SVG chart with one column for each name, on a linear or logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.report import svg
from penstock.report.curves import HEIGHT, RIGHT, WIDTH, AxisScale, Curve, grid, marks_upward
from penstock.report.ticks import short_number

_LETTER: Final = 7.2
_NARROW: Final = 6.2  # letters of names below columns


def named_columns(title: str, names: Sequence[str], values: Curve, *, upward: str, powers: bool = False) -> str:
    """Draw a column for each name, its value above it; the title is left to whoever shows the chart."""
    heights = [value for _, value in values.points]
    powers = powers and min(heights) > 0
    # The axis begins below the lowest value, or its column would have no height.
    ticks, labels = marks_upward([*heights, min(heights) / 2] if powers else heights, powers)
    left, ground = 12 + _LETTER * max(map(len, labels)), HEIGHT - 44
    scale = AxisScale(ticks[0], ticks[-1], ground, 44, powers)
    width = (WIDTH - RIGHT - left) / len(names)
    parts = [svg.text(2, 15, upward, "tick"), *grid(scale, ticks, labels, left)]
    for number, (name, value) in enumerate(zip(names, heights, strict=True)):
        middle, top, words = left + (number + 0.5) * width, scale.at(value), short_number(value)
        parts.append(svg.rect(middle - 0.3 * width, top, 0.6 * width, ground - top, "f0", title=f"{name}: {words}"))
        parts.append(svg.text(middle, top - 5, words, "tick", anchor="middle"))
        for row, piece in enumerate(_rows(name, width)):
            parts.append(svg.text(middle, ground + 16 + 14 * row, piece, "tick", anchor="middle"))
    label = "; ".join(f"{name} {short_number(value)}" for name, value in zip(names, heights, strict=True))
    return svg.drawing(WIDTH, HEIGHT, parts, label=f"{title}, {upward}: {label}")


def _rows(name: str, width: float) -> list[str]:
    """Break a name at blanks so that it keeps to its column."""
    rows = [""]
    for word in name.split():
        longer = f"{rows[-1]} {word}".strip()
        if rows[-1] and len(longer) * _NARROW > 0.85 * width:
            rows.append(word)
        else:
            rows[-1] = longer
    return rows

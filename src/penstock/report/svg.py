"""Writes the few SVG elements that charts and pictures are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.report.markup import escaped

Number = float | int | str  # a str is a percentage


def drawing(width: int, height: int, parts: Iterable[str], *, label: str, style: str = "chart") -> str:
    """Frame a drawing that scales with its place; the label is read out instead of it."""
    return (
        f'<svg class="{style}" viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(label)}">'
        f"<title>{escaped(label)}</title>{''.join(parts)}</svg>"
    )


def strip(height: int, parts: Iterable[str], *, label: str) -> str:
    """Frame a drawing as wide as its place and always as high: positions across are percentages."""
    return (
        f'<svg class="strip" width="100%" height="{height}" role="img" aria-label="{escaped(label)}">'
        f"<title>{escaped(label)}</title>{''.join(parts)}</svg>"
    )


def rect(x: Number, y: Number, width: Number, height: Number, style: str, *, title: str = "", radius: int = 0) -> str:
    """Draw a rectangle; its title shows when pointed at."""
    rounded = {"rx": radius} if radius else {}
    return _element("rect", {"class": style, "x": x, "y": y, "width": width, "height": height, **rounded}, title)


def line(x1: Number, y1: Number, x2: Number, y2: Number, style: str) -> str:
    """Draw a straight line."""
    return _element("line", {"class": style, "x1": x1, "y1": y1, "x2": x2, "y2": y2})


def dot(x: Number, y: Number, radius: float, style: str, *, title: str = "") -> str:
    """Draw a filled circle; its title shows when pointed at."""
    return _element("circle", {"class": style, "cx": x, "cy": y, "r": radius}, title)


def text(x: Number, y: Number, words: str, style: str = "", *, anchor: str = "start", title: str = "") -> str:
    """Write words at a place."""
    inside = (f"<title>{escaped(title)}</title>" if title else "") + escaped(words)
    return _open("text", {"class": style, "x": x, "y": y, "text-anchor": anchor}) + f">{inside}</text>"


def polyline(points: Iterable[tuple[float, float]], style: str) -> str:
    """Draw a line through points."""
    return _element("polyline", {"class": style, "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points)})


def band(left: tuple[float, float, float], right: tuple[float, float, float], style: str, *, title: str = "") -> str:
    """Draw a band that flows from (x, top, bottom) on the left to the same on the right."""
    (x1, top1, bottom1), (x2, top2, bottom2) = left, right
    middle = (x1 + x2) / 2
    path = (
        f"M{x1:.1f},{top1:.1f}C{middle:.1f},{top1:.1f} {middle:.1f},{top2:.1f} {x2:.1f},{top2:.1f}"
        f"L{x2:.1f},{bottom2:.1f}C{middle:.1f},{bottom2:.1f} {middle:.1f},{bottom1:.1f} {x1:.1f},{bottom1:.1f}Z"
    )
    return _element("path", {"class": style, "d": path}, title)


def _element(name: str, attributes: Mapping[str, Number], title: str = "") -> str:
    """Write an element, with a title inside it if there is one."""
    opened = _open(name, attributes)
    return f"{opened}><title>{escaped(title)}</title></{name}>" if title else f"{opened}/>"


def _open(name: str, attributes: Mapping[str, Number]) -> str:
    """Write the beginning of an element's tag."""
    pairs = "".join(f' {key}="{_written(value)}"' for key, value in attributes.items() if value != "")
    return f"<{name}{pairs}"


def _written(value: Number) -> str:
    """Write a number without needless digits."""
    return escaped(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")

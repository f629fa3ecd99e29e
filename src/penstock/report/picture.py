"""Writes a chart as an SVG file of its own, with the page's style inside it, so that Markdown can show it."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

MARGIN: Final = 10
SCALE: Final = 1.25  # a page's charts are drawn for a column; a file has the width to itself
_VIEW: Final = re.compile(r'^<svg class="(?P<style>\w+)" viewBox="0 0 (?P<width>\d+) (?P<height>\d+)"')
_RULE: Final = re.compile(r"^([^@{}]+)\{([^{}]*)\}$")
_CLASS: Final = re.compile(r"\.([a-z]\w*)")
_USED: Final = re.compile(r'class="([^"]+)"')
_FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif"


def picture(drawing: str) -> str:
    """Turn a drawing of `svg.drawing` into a file: a white ground, light colours, and the rules that it uses."""
    found = _VIEW.match(drawing)
    if found is None:
        raise ValueError("not a drawing of a fixed size")
    width, height = (int(found[side]) + 2 * MARGIN for side in ("width", "height"))
    box = f"{-MARGIN} {-MARGIN} {width} {height}"
    size = f'width="{width * SCALE:.0f}" height="{height * SCALE:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{box}"'
    ground = f'<rect x="{-MARGIN}" y="{-MARGIN}" width="{width}" height="{height}" fill="#fff"/>'
    inside = drawing[found.end() :].replace("</title>", f"</title><style>{_style(drawing)}</style>{ground}", 1)
    return f"{head}{inside}\n".replace("><", ">\n<")


def _style(drawing: str) -> str:
    """Choose the page's rules for shapes of the drawing, with colours in the place of their names."""
    css = resources.files("penstock.report").joinpath("page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", css.split("@media", 1)[0]))
    used = {name for names in _USED.findall(drawing) for name in names.split()} | {"text"}
    kept = [f"text{{font-family:{_FONT}}}"]
    for line in css.replace("}", "}\n").splitlines():
        rule = _RULE.match(line)
        if rule is None:
            continue
        selectors = [s.removeprefix("svg ") for s in rule[1].split(",") if _concerns(s, used)]
        if selectors:
            body = re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], rule[2]).replace("font-family:inherit;", "")
            kept.append(f"{','.join(selectors)}{{{body}}}")
    return "".join(kept)


def _concerns(selector: str, used: set[str]) -> bool:
    """Tell whether a rule is about shapes of a drawing: words, or classes that are all in use."""
    if selector == "svg text":
        return True
    classes = set(_CLASS.findall(selector))
    return bool(classes) and classes <= used and re.fullmatch(r"(svg )?[.\w]+", selector) is not None

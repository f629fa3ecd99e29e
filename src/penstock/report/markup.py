"""Writes pieces of HTML, and escapes every word that a user wrote."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.printable import block

_PLAIN: Final = re.compile(r"`([A-Za-z_][A-Za-z0-9_]*)`")
_JOINED: Final = re.compile(r"`([A-Za-z_][A-Za-z0-9_]*)#[0-9a-f]+\.([A-Za-z_][A-Za-z0-9_]*)`")


def escaped(text: object) -> str:
    """Write any text as HTML, in an element or in a quoted attribute.

    Control characters are no HTML at all, lone surrogates no UTF-8, and signs that turn the direction of writing would
    show one text as another: all of these are written as escapes.
    """
    return html.escape(block(str(text)), quote=True)


def readable(expression: str) -> str:
    """Write a canonical expression as a person would: `` `listing#1f0c.r2000` `` as ``listing.r2000``."""
    return _PLAIN.sub(r"\1", _JOINED.sub(r"\1.\2", expression))


def shortened(text: str, most: int) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def code(text: object) -> str:
    """Write text as code."""
    return f"<code>{escaped(text)}</code>"


def details(summary: str, body: str) -> str:
    """Fold a body away under a line; both are HTML."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> str:
    """Write a table of plain values; the columns given hold numbers and stand flush right."""
    marks = [' class="n"' if i in numbers else "" for i in range(len(heads))]
    head = "".join(f'<th scope="col"{mark}>{escaped(h)}</th>' for h, mark in zip(heads, marks, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{escaped(cell)}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figures(items: Iterable[tuple[str, str]]) -> str:
    """Write headline figures: a value and what it counts, both plain text."""
    tiles = "".join(f"<div><b>{escaped(value)}</b><span>{escaped(what)}</span></div>" for value, what in items)
    return f'<div class="figures">{tiles}</div>'


def section(title: str, *parts: str) -> str:
    """Write a section; the title is plain text, the parts are HTML."""
    return f"<section><h2>{escaped(title)}</h2>{''.join(parts)}</section>"


def paragraph(text: str) -> str:
    """Write a paragraph of plain text."""
    return f"<p>{escaped(text)}</p>"

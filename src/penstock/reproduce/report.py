"""Writes reproduced figures as a page that needs no other file, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from penstock.report.columns import named_columns
from penstock.report.curves import curve_chart
from penstock.report.markup import details, escaped, figures, section, table
from penstock.report.page import page
from penstock.reproduce.figure import Claim, Figure, Size
from penstock.reproduce.papers import PAPERS


def as_json(made: Sequence[Figure], size: Size) -> dict[str, Any]:
    """Return all claims, and all figures with their numbers."""
    claims = [claim for figure in made for claim in figure.json()["claims"]]
    told = {"tuples": size.tuples, "queries": size.queries, "seed": size.seed}
    return {"size": told, "claims": claims, "figures": [figure.json() for figure in made]}


def report(made: Sequence[Figure], size: Size) -> str:
    """Show every plot with what it claims, paper by paper."""
    claims = [claim for figure in made for claim in figure.claims]
    holding = sum(claim.verdict == "holds" for claim in claims)
    head = figures([(str(len(made)), "figures and tables"), (str(len(claims)), "claims"), (str(holding), "hold")])
    parts = [head]
    for paper, group in groupby(made, key=lambda f: f.paper):
        parts.append(section(PAPERS[paper].title, _paper(list(group))))
    lead = f"{size.queries} queries over {size.tuples:,} tuples, seed {size.seed}, unless a figure says otherwise."
    return page("The papers' figures, made again", parts, lead=lead)


def _paper(made: Sequence[Figure]) -> str:
    """Show the figures of a paper beside each other, and a table of all claims."""
    plots = "".join(f"<div>{_plot(figure)}</div>" for figure in made)
    return f'<div class="charts two">{plots}</div>' + _claims([c for f in made for c in f.claims])


def _plot(figure: Figure) -> str:
    """Draw one figure and list what it claims."""
    title = f"{figure.number}: {figure.title}"
    words = "".join(
        f"<li>{escaped(c.verdict)}: {escaped(c.stated)} (measured {escaped(c.measured)})</li>" for c in figure.claims
    )
    note = f'<p class="note">{escaped(figure.note)}</p>' if figure.note else ""
    claims = details("what it claims", f"<ul>{words}</ul>") if words else ""
    return f"<h3>{escaped(title)}</h3>{_drawn(title, figure)}{note}{claims}"


def _drawn(title: str, figure: Figure) -> str:
    """Draw curves or columns as the paper does; what is a table there is a table here."""
    if figure.columns:
        return named_columns(title, figure.columns, figure.curves[0], upward=figure.upward, powers=figure.powers)
    if figure.number.startswith("Table"):
        rows = [(c.name, f"{y:.1f}", f"{x:.1f}") for c in figure.curves for x, y in c.points]
        return table(("", figure.upward, figure.across), rows)
    return curve_chart(
        title, figure.curves, across=figure.across, upward=figure.upward, powers=figure.powers, headed=False
    )


def _claims(claims: Sequence[Claim]) -> str:
    """List claims as a table."""
    rows = [(c.place, c.verdict, c.stated, c.measured, c.reason) for c in claims]
    return f'<div class="text">{table(("place", "verdict", "stated", "measured", "reason"), rows)}</div>'

"""Lists the papers that can be reproduced, and finds the experiments of a paper or figure by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ProjectError, nearest
from penstock.reproduce import (
    b04,
    b04_examples,
    g06,
    k06,
    s07_adapt,
    s07_fresh,
    s07_load,
    s07_more,
    s07_techniques,
    w11,
    w11_more,
)
from penstock.reproduce.figure import Figure, Size

Maker = Callable[[], Figure]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: its title, and what makes its figures at a size."""

    title: str
    parts: tuple[Callable[[Size], dict[str, Maker]], ...]

    def __str__(self) -> str:
        """Print the title."""
        return self.title


S07: Final = (s07_load.figures, s07_more.figures, s07_techniques.figures, s07_adapt.figures, s07_fresh.figures)
# A new paper is a line here.
PAPERS: Final[Mapping[str, Paper]] = {
    "s07": Paper("Sharaf 2007: Metrics and Algorithms for Processing Multiple Continuous Queries", S07),
    "b04": Paper(
        "Babcock, Babu, Datar, Motwani and Thomas 2004: Operator scheduling in data stream systems",
        (b04.figures, b04_examples.figures),
    ),
    "g06": Paper("Golab, Bijay and Özsu 2006: Multi-Query Optimization … by Schedule Synchronization", (g06.figures,)),
    "w11": Paper(
        "Guirguis, Sharaf, Chrysanthis and Labrinidis 2011: Optimized Processing of Multiple Aggregate … Queries",
        (w11.figures, w11_more.figures),
    ),
    "k06": Paper("Krishnamurthy, Wu and Franklin 2006: On-the-Fly Sharing for Streamed Aggregation", (k06.figures,)),
}


def _in_order(paper: Paper, size: Size) -> list[tuple[str, Maker]]:
    """List a paper's figures by number, then what has none."""
    made = [item for part in paper.parts for item in part(size).items()]
    return sorted(made, key=lambda item: (not item[0].isdigit(), int(item[0]) if item[0].isdigit() else 0))


def makers(paper: str, figure: str | None, size: Size) -> dict[tuple[str, str], Maker]:
    """List the figures of a paper, of all papers, or one figure."""
    if paper != "all" and paper not in PAPERS:
        names = [*PAPERS, "all"]
        raise ProjectError(
            f'there is no paper "{paper}"', detail=f"papers: {', '.join(names)}", hint=nearest(paper, names)
        )
    chosen = PAPERS if paper == "all" else {paper: PAPERS[paper]}
    found = {(tag, name): make for tag, one in chosen.items() for name, make in _in_order(one, size)}
    if figure is None:
        return found
    wanted = {key: make for key, make in found.items() if key[1].lower() == figure.lower().removeprefix("figure ")}
    if not wanted:
        raise ProjectError(f'{paper} has no figure "{figure}"', detail=f"figures: {', '.join(n for _, n in found)}")
    return wanted

"""The names of a paper and a figure come in; the experiments that make it again go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.errors import ProjectError, nearest
from penstock.reproduce import b04, g06, k06, s07_fresh, s07_load, s07_more, s07_techniques, w11, w11_more
from penstock.reproduce.figure import Figure, Size

Maker = Callable[[], Figure]
PAPERS: Final[Mapping[str, tuple[Callable[[Size], dict[str, Maker]], ...]]] = {
    "s07": (s07_load.figures, s07_more.figures, s07_techniques.figures, s07_fresh.figures),
    "b04": (b04.figures,),
    "g06": (g06.figures,),
    "w11": (w11.figures, w11_more.figures),
    "k06": (k06.figures,),
}
TITLES: Final = {
    "s07": "Sharaf 2007: Metrics and Algorithms for Processing Multiple Continuous Queries",
    "b04": "Babcock, Babu, Datar, Motwani and Thomas 2004: Operator scheduling in data stream systems",
    "g06": "Golab, Bijay and Özsu 2006: Multi-Query Optimization … by Schedule Synchronization",
    "w11": "Guirguis, Sharaf, Chrysanthis and Labrinidis 2011: Optimized Processing of Multiple Aggregate … Queries",
    "k06": "Krishnamurthy, Wu and Franklin 2006: On-the-Fly Sharing for Streamed Aggregation",
}


def makers(paper: str, figure: str | None, size: Size) -> dict[tuple[str, str], Maker]:
    """List the figures of a paper, of all papers, or one figure."""
    if paper != "all" and paper not in PAPERS:
        names = [*PAPERS, "all"]
        raise ProjectError(
            f'there is no paper "{paper}"', detail=f"papers: {', '.join(names)}", hint=nearest(paper, names)
        )
    chosen = PAPERS if paper == "all" else {paper: PAPERS[paper]}
    found = {(p, name): make for p, parts in chosen.items() for part in parts for name, make in part(size).items()}
    if figure is None:
        return found
    wanted = {key: make for key, make in found.items() if key[1].lower() == figure.lower().removeprefix("figure ")}
    if not wanted:
        raise ProjectError(f'{paper} has no figure "{figure}"', detail=f"figures: {', '.join(n for _, n in found)}")
    return wanted

"""Reproduces the figures of Guirguis, Sharaf, Chrysanthis and Labrinidis 2011 on plans and their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

from penstock.report.curves import Curve
from penstock.reproduce.figure import Claim, Figure, Judge, Size, below
from penstock.reproduce.w11_workload import woven_queries
from penstock.share.weave.baselines import insert_then_weave, local_search, no_share, share_all, share_at_random
from penstock.share.weave.costs import UnitCosts
from penstock.share.weave.plan_queries import WovenTrees
from penstock.share.weave.weaving import weave_share

COUNTS: Final = (50, 100, 250, 500, 1000)
FEW: Final = 250  # queries up to which Local Search is run: it takes hours beyond
RATES: Final = (50.0, 300.0, 10_000.0)
TEMPLATES: Final = (
    "The paper does not publish its slides: they are 1, 2 and 5 times powers of ten up to 100,000 s here, so "
    "percentages are reported, not required."
)
GREEDY: Final = (
    "both are greedy, and what is written of Insert-then-Weave leaves open by what it chooses a tree: by cost, as "
    "here, it ends within a few percent of Weave Share, above or below"
)
Algorithm = Callable[[int, float, int], WovenTrees]


@cache
def woven(count: int, rate: float, seed: int, skew: float = 0.6, overlap: float = 50.0) -> WovenTrees:
    """Weave a workload."""
    return weave_share(woven_queries(count, skew=skew, overlap=overlap, seed=seed), UnitCosts(rate))


@cache
def shared_cost(count: int, rate: float, seed: int, skew: float = 0.6, overlap: float = 50.0) -> float:
    """Return what one tree for all costs."""
    return share_all(woven_queries(count, skew=skew, overlap=overlap, seed=seed), UnitCosts(rate)).cost


def gain(count: int, rate: float, seed: int, skew: float = 0.6, overlap: float = 50.0) -> float:
    """Return by how many percent Weave Share is cheaper than Shared."""
    return below(woven(count, rate, seed, skew, overlap).cost, shared_cost(count, rate, seed, skew, overlap))


ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    "Weave Share": woven,
    "Shared": lambda n, rate, seed: share_all(woven_queries(n, seed=seed), UnitCosts(rate)),
    "Insert-then-Weave": lambda n, rate, seed: insert_then_weave(woven_queries(n, seed=seed), UnitCosts(rate)),
    "LS-NS-10x": lambda n, rate, seed: local_search(woven_queries(n, seed=seed), UnitCosts(rate), 10 * n, seed),
    "Random": lambda n, rate, seed: share_at_random(woven_queries(n, seed=seed), UnitCosts(rate), seed),
    "No Share": lambda n, rate, seed: no_share(woven_queries(n, seed=seed), UnitCosts(rate)),
}


def counts_for(size: Size) -> tuple[int, ...]:
    """Return the numbers of queries that are tried: up to twice those of the size."""
    return tuple(n for n in COUNTS if n <= 2 * size.queries) or (size.queries,)


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the figures on plans from scratch."""
    return {
        "4": partial(_algorithms, size, "Figure 4", 50.0),
        "5": partial(_algorithms, size, "Figure 5", 300.0),
        "6": partial(_normalized, size),
        "7": partial(_trees, size),
        "8": partial(_rates, size),
        "9": partial(_overlaps, size),
        "10": partial(_skews, size),
    }


def _algorithms(size: Size, place: str, rate: float) -> Figure:
    """Compare all algorithms (§7.1.1)."""
    at: dict[str, dict[int, float]] = {name: {} for name in ALGORITHMS}
    for count in counts_for(size):
        size.say(f"{count} queries at {rate:g} tuples/s")
        for name, make in ALGORITHMS.items():
            if name != "LS-NS-10x" or count <= FEW:
                at[name][count] = make(count, rate, size.seed).cost
    curves = tuple(Curve(name, tuple((float(n), c) for n, c in found.items())) for name, found in at.items())
    note = f"{TEMPLATES} Local Search up to {FEW} queries."
    title = f"Cost against queries at {rate:g} tuples per second"
    upward = "aggregate operations per second"
    return Figure("w11", place, title, "queries", upward, curves, _below(Judge("w11", place), at), True, note)


def _below(judge: Judge, at: Mapping[str, Mapping[int, float]]) -> tuple[Claim, ...]:
    """Judge whether Weave Share is below every other algorithm everywhere."""
    claims, ours = [], at["Weave Share"]
    for number, (name, theirs) in enumerate([one for one in at.items() if one[0] != "Weave Share"], 1):
        ratios = [theirs[n] / ours[n] for n in theirs]
        words = f"{min(ratios):.3g} to {max(ratios):.3g} times its cost"
        holds = min(ratios) >= 1 - 1e-9
        reason = GREEDY if name == "Insert-then-Weave" else ""
        claims.append(judge.sign(number, f"Weave Share not above {name} anywhere", holds, words, reason))
    return tuple(claims)


def _normalized(size: Size) -> Figure:
    """Compare with Shared at three rates (§7.1.1)."""
    judge, counts = Judge("w11", "Figure 6"), counts_for(size)
    at = {rate: {n: 100 - gain(n, rate, size.seed) for n in counts} for rate in RATES}
    lowest = {rate: [found[n] for n in counts] for rate, found in at.items()}
    grows = all(found[-1] <= found[0] + 1e-9 for found in lowest.values())
    words = "; ".join(f"{100 - found[0]:.0f} to {100 - found[-1]:.0f} % at {r:g}/s" for r, found in lowest.items())
    claims = [
        judge.sign(1, "the gain over Shared grows with the queries", grows, words),
        judge.sign(2, "never dearer than Shared", max(map(max, lowest.values())) <= 100 + 1e-9, words),
    ]
    if 1000 in counts:
        wider = {m: gain(1000, 10_000.0, size.seed, 0.6, m) for m in (500.0, 1000.0)}
        reason = (
            "§7.1.2 states 12 % for the same setting, which comes out; the gain rests on the overlap: with factors up "
            "to " + ", ".join(f"{m:g} instead of 50 it is {g:.0f} %" for m, g in wider.items())
        )
        claims.append(judge.percent(3, "1000 queries at 10 K tuples/s: lower by", 62, 100 - at[10_000.0][1000], reason))
        claims.append(judge.percent(4, "the same, as §7.1.2 states it", 12, 100 - at[10_000.0][1000]))
    return Figure(
        "w11",
        "Figure 6",
        "Weave Share's cost by Shared's",
        "queries",
        "percent",
        _by_rate(at),
        tuple(claims),
        False,
        TEMPLATES,
    )


def _trees(size: Size) -> Figure:
    """Count trees (§7.1.1)."""
    judge, counts = Judge("w11", "Figure 7"), counts_for(size)
    at = {rate: {n: float(len(woven(n, rate, size.seed).trees)) for n in counts} for rate in RATES}
    grows = all(found[counts[-1]] >= found[counts[0]] for found in at.values())
    falls = all(at[50.0][n] >= at[300.0][n] >= at[10_000.0][n] for n in counts)
    words = "; ".join(f"{found[counts[0]]:.0f} to {found[counts[-1]]:.0f} at {r:g}/s" for r, found in at.items())
    claims = (
        judge.sign(1, "more trees with more queries", grows, words),
        judge.sign(2, "fewer trees at higher rates", falls, words),
    )
    return Figure("w11", "Figure 7", "Trees of Weave Share", "queries", "trees", _by_rate(at), claims, False, TEMPLATES)


def _by_rate(at: Mapping[float, Mapping[int, float]]) -> tuple[Curve, ...]:
    """Draw a curve for each rate."""
    return tuple(Curve(f"{rate:g}/s", tuple((float(n), v) for n, v in found.items())) for rate, found in at.items())


def _rates(size: Size) -> Figure:
    """Vary the input rate (§7.1.2)."""
    rates, counts = (50.0, 200.0, 500.0, 1000.0, 2000.0, 3000.0, 5000.0, 10_000.0), (100, 250, 500)
    judge, known = Judge("w11", "Figure 8"), [n for n in counts if n <= size.queries] or [size.queries]
    at = {n: {rate: gain(n, rate, size.seed) for rate in rates} for n in known}
    curves = tuple(Curve(f"{n} queries", tuple((r, 100 - g) for r, g in found.items())) for n, found in at.items())
    falls = all(found[50.0] >= found[2000.0] - 1e-9 >= found[10_000.0] - 2e-9 for found in at.values())
    words = "; ".join(f"{n}: {f[50.0]:.0f}, {f[2000.0]:.0f}, {f[10_000.0]:.0f} %" for n, f in at.items())
    claims = [judge.sign(1, "the gain falls as the rate rises (50, 2 K, 10 K)", falls, words)]
    for number, (rate, stated) in enumerate(((50.0, 80.0), (2000.0, 24.0), (3000.0, 6.0)), 2):
        if 250 in at:
            claims.append(
                judge.percent(number, f"250 queries at {rate:g}/s: lower by", stated, at[250][rate], TEMPLATES)
            )
    across = "tuples per second"
    return Figure(
        "w11", "Figure 8", "Weave Share's cost by Shared's", across, "percent", curves, tuple(claims), False, TEMPLATES
    )


STEEPER: Final = 1.5
USUAL: Final = Size().queries


def _stated_overlaps(judge: Judge, size: Size) -> tuple[Claim, ...]:
    """Compare what is stated for 100 K tuples/s and 2000 queries, unless fewer than usual are asked for."""
    count, rate = 2000, 100_000.0
    if size.queries < USUAL:
        return ()
    size.say(f"{count} queries at {rate:g} tuples/s")
    stated = {200.0: 19, 2000.0: 74}
    at = {most: gain(count, rate, size.seed, 0.6, most) for most in stated}
    why = (
        "the slides are not published; ours are 1, 2 and 5 times powers of ten. The gain rests on how many are "
        f"long: with a skew of {STEEPER}, nothing else changed, it is "
        + " and ".join(f"{gain(count, rate, size.seed, STEEPER, most):.0f}" for most in stated)
        + " % for factors up to 200 and 2000"
    )
    words = "{} queries at 100 K tuples/s, factors up to {:g}: lower by"
    return tuple(
        judge.percent(i, words.format(count, most), share, at[most], why)
        for i, (most, share) in enumerate(stated.items(), 2)
    )


def _overlaps(size: Size) -> Figure:
    """Vary the largest overlap factor (§7.1.3)."""
    most, rates = (50.0, 200.0, 500.0, 1000.0, 2000.0), (1000.0, 10_000.0, 100_000.0)
    judge, count = Judge("w11", "Figure 9"), size.queries
    at = {rate: {m: gain(count, rate, size.seed, 0.6, m) for m in most} for rate in rates}
    curves = tuple(Curve(f"{r:g}/s", tuple((m, 100 - g) for m, g in found.items())) for r, found in at.items())
    grows = all(found[2000.0] >= found[50.0] - 1e-9 for found in at.values())
    words = "; ".join(f"{found[50.0]:.0f} to {found[2000.0]:.0f} % at {r:g}/s" for r, found in at.items())
    claims = (
        judge.sign(1, "the gain grows with the overlap factor", grows, words),
        *_stated_overlaps(judge, size),
    )
    note = f"{TEMPLATES} {count} queries; the paper has 2000, for which stated gains are judged."
    return Figure(
        "w11", "Figure 9", "Weave Share's cost by Shared's", "largest overlap", "percent", curves, claims, False, note
    )


def _skews(size: Size) -> Figure:
    """Vary the skew of slides (§7.1.4)."""
    skews = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 3.3)
    judge, counts = Judge("w11", "Figure 10"), [n for n in (100, 250, 500) if n <= size.queries] or [size.queries]
    seeds = range(size.seed, size.seed + 3)
    at = {n: {s: sum(gain(n, 100.0, seed, s, 10.0) for seed in seeds) / 3 for s in skews} for n in counts}
    curves = tuple(Curve(f"{n} queries", tuple((s, 100 - g) for s, g in found.items())) for n, found in at.items())
    peaks = {n: max(found, key=lambda s: found[s]) for n, found in at.items()}
    inside = all(0.0 < peaks[n] < 3.3 and found[3.3] < max(found.values()) for n, found in at.items())
    words = "; ".join(
        f"{n}: {f[0.0]:.0f}, {max(f.values()):.0f} at {peaks[n]:g}, {f[3.3]:.0f} %" for n, f in at.items()
    )
    most = [max(found.values()) for found in at.values()]
    claims = (
        judge.sign(1, "the gain rises, peaks and falls as skew grows", inside, words),
        judge.sign(2, "the more queries, the larger the greatest gain", most == sorted(most), words),
    )
    note = f"{TEMPLATES} Averages of three workloads."
    return Figure("w11", "Figure 10", "Weave Share's cost by Shared's", "skew", "percent", curves, claims, False, note)

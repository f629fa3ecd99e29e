"""Finds the edges that cut a stream into shared slices (Krishnamurthy, Wu and Franklin 2006, §3).

Times are integers: microseconds everywhere in Penstock, though nothing here depends on the unit. The explicit
sliced windows of §3.2 (`Sliced`, `compose`) serve small cases and tests; running plans use `SliceManager`, which never
builds the common period.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal, assert_never

import numpy as np

from penstock.model.arrays import Int64Array
from penstock.model.window import Window

Slicing = Literal["paned", "paired"]

MOST_SLICES: Final = 1 << 20  # explicit composition stops here
MOST_COUNTED: Final = 1 << 18  # edges counted for a rate: a few milliseconds
FEW_PROGRESSIONS: Final = 4  # up to here, arithmetic per row beats a search among edges


@dataclass(frozen=True, slots=True)
class Sliced:
    """A sliced window W(s₁, …, sₘ): slice lengths that repeat with their sum as period (§3.1, Definition 2)."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a window without slices, or with one that has no length."""
        if not self.lengths or min(self.lengths) <= 0:
            raise ValueError("a sliced window has at least one slice and every slice has a length")

    @property
    def period(self) -> int:
        """Return the time after which the slices repeat."""
        return sum(self.lengths)

    @property
    def edges(self) -> tuple[int, ...]:
        """Return the edges e₁ < … < eₘ = period of one period."""
        return tuple(accumulate(self.lengths))

    def stretch(self, factor: int) -> Sliced:
        """Repeat the slices so that the period is ``factor`` times as long."""
        return Sliced(self.lengths * factor)

    def __len__(self) -> int:
        """Count the slices of one period."""
        return len(self.lengths)

    def __str__(self) -> str:
        """Print the slice lengths as the paper writes them: ``(12, 3)``."""
        return f"({', '.join(map(str, self.lengths))})"


def paned(range_: int, slide: int) -> Sliced:
    """Cut a window into panes of one length, the greatest common divisor of range and slide (§3.1)."""
    pane = math.gcd(range_, slide)
    return Sliced((pane,) * (slide // pane))


def paired(range_: int, slide: int) -> Sliced:
    """Cut a window into (slide - range mod slide, range mod slide), or one slice if slide divides range (§3.1)."""
    rest = range_ % slide
    return Sliced((slide - rest, rest)) if rest else Sliced((slide,))


def compose(*windows: Sliced) -> Sliced:
    """Compose sliced windows over the lcm of their periods: an edge wherever any of them has one (§3.2.1)."""
    period = math.lcm(*(window.period for window in windows))
    if sum(period // window.period * len(window) for window in windows) > MOST_SLICES:
        raise ValueError(f"the common period {period} has more than {MOST_SLICES} edges; use SliceManager")
    edges = sorted({edge for window in windows for edge in window.stretch(period // window.period).edges})
    return Sliced(tuple(edge - before for before, edge in zip([0, *edges], edges, strict=False)))


@dataclass(frozen=True, slots=True, order=True)
class Progression:
    """All times ≡ phase (mod step), before and after the epoch."""

    step: int
    phase: int

    def __post_init__(self) -> None:
        """Keep the phase within one step."""
        if self.step <= 0:
            raise ValueError("a progression's step is positive")
        object.__setattr__(self, "phase", self.phase % self.step)

    def within(self, other: Progression) -> bool:
        """Tell whether every time of this progression is one of the other's."""
        return self.step % other.step == 0 and (self.phase - other.phase) % other.step == 0

    def meets(self, other: Progression) -> bool:
        """Tell whether the two have a time in common (Chinese remainder theorem)."""
        return (self.phase - other.phase) % math.gcd(self.step, other.step) == 0

    def times(self, lo: int, hi: int) -> Int64Array:
        """List the times from ``lo`` up to, not including, ``hi``."""
        return np.arange(lo + (self.phase - lo) % self.step, hi, self.step, dtype=np.int64)

    def __str__(self) -> str:
        """Print the congruence: ``3 (mod 15)``."""
        return f"{self.phase} (mod {self.step})"


def edges_of(window: Window, slicing: Slicing) -> tuple[Progression, ...]:
    """Give the edges of an epoch-aligned window: it ends at t ≡ offset (mod slide) and starts at t - range."""
    match slicing:
        case "paned":
            return (Progression(math.gcd(window.length, window.slide), window.offset),)
        case "paired":
            ends = Progression(window.slide, window.offset)
            starts = Progression(window.slide, window.offset - window.length)
            return (ends,) if starts == ends else (ends, starts)
    assert_never(slicing)


class SliceManager:
    """Find slice edges on the fly while windows join and leave (§3.3, Algorithm 1), without their common period.

    The paper keeps a priority queue with the next edges of every window, anchored at the time a query joined. Here
    edges are epoch-aligned, so the queue is arithmetic on progressions: any stretch of time can be asked for, in any
    order, and a joining query shares edges with the old ones wherever their phases meet.
    """

    def __init__(self, windows: Iterable[Window] = (), slicing: Slicing = "paired") -> None:
        """Start with some windows, each cut in the same way."""
        self.slicing = slicing
        self._windows: Counter[Window] = Counter(windows)
        self._cut()

    def join(self, window: Window) -> None:
        """Add a window; one that is there already is counted once more."""
        self._windows[window] += 1
        if self._windows[window] == 1:
            self._cut()

    def leave(self, window: Window) -> None:
        """Take one occurrence of a window out; its edges go when no other window needs them."""
        if not self._windows[window]:
            raise ValueError(f"window {window} has not joined")
        self._windows[window] -= 1
        if not self._windows[window]:
            del self._windows[window]
            self._cut()

    @property
    def progressions(self) -> tuple[Progression, ...]:
        """Return the progressions whose union is the edges, none of them within another."""
        return self._progressions

    def next_edge(self, after: int) -> int:
        """Return the first edge strictly later than the time."""
        self._require_edges()
        return int((after + 1 + (self._phases - (after + 1)) % self._steps).min())

    def edge_at_or_before(self, time: int) -> int:
        """Return the last edge that is not later than the time."""
        self._require_edges()
        return int((time - (time - self._phases) % self._steps).max())

    def edges(self, lo: int, hi: int) -> Int64Array:
        """List the distinct edges from ``lo`` up to, not including, ``hi``, in order."""
        if hi <= lo or not self._progressions:
            return np.empty(0, np.int64)
        return _union(self._progressions, lo, hi)

    def slice_starts(self, times: Int64Array) -> Int64Array:
        """Return for each time the start of its slice: the greatest edge that is not later."""
        self._require_edges()
        if not len(times):
            return np.empty(0, np.int64)
        lo, hi = int(times.min()), int(times.max())
        searched = sum((hi - lo) // progression.step + 2 for progression in self._progressions)
        if len(self._progressions) <= FEW_PROGRESSIONS or searched > len(times) * len(self._progressions):
            return self._starts_by_arithmetic(times)
        edges = self.edges(self.edge_at_or_before(lo), hi + 1)
        return edges[np.searchsorted(edges, times, side="right") - 1]

    def granule(self) -> Progression | None:
        """Return the coarsest single progression that contains every edge; None without windows."""
        if not self._progressions:
            return None
        origin = self._progressions[0].phase
        parts = (part for p in self._progressions for part in (p.step, p.phase - origin))
        return Progression(math.gcd(*parts), origin)

    def edge_rate(self, unit: int) -> float:
        """Return the number of distinct edges per ``unit`` of time.

        Exact while the progressions, taken one by one, have at most `MOST_COUNTED` edges in their common period; beyond
        that, counted over the stretch from the epoch in which they have that many, so that the answer is repeatable.
        """
        return _edge_rate(self._progressions, unit) if self._progressions else 0.0

    def covers(self, window: Window) -> bool:
        """Tell whether a window's starts and ends are edges here already, so that stored slices can answer it."""
        return all(self._contains(edges) for edges in edges_of(window, "paired"))

    def _contains(self, wanted: Progression) -> bool:
        """Tell whether each time of a progression is an edge: of one progression, or of several taking turns."""
        if any(wanted.within(known) for known in self._progressions):
            return True
        meeting = [known for known in self._progressions if wanted.meets(known)]
        turns = math.lcm(wanted.step, *(known.step for known in meeting)) // wanted.step
        # Below this density some turn is missed for certain; above it, few turns have to be looked at.
        if turns > MOST_SLICES or sum(wanted.step / math.lcm(wanted.step, k.step) for k in meeting) < 1 - 1e-9:
            return False
        missed = np.ones(turns, bool)
        for known in meeting:
            shared = math.gcd(wanted.step, known.step)
            every = known.step // shared
            first = (known.phase - wanted.phase) // shared * pow(wanted.step // shared, -1, every) % every
            missed[first::every] = False
        return not missed.any()

    def _starts_by_arithmetic(self, times: Int64Array) -> Int64Array:
        """Find slice starts progression by progression, without listing edges."""
        starts = np.full(len(times), np.iinfo(np.int64).min)
        for p in self._progressions:
            np.maximum(starts, times - (times - p.phase) % p.step, out=starts)
        return starts

    def _cut(self) -> None:
        """Recompute the progressions after a window joined or left."""
        self._progressions = _outermost({edges for window in self._windows for edges in edges_of(window, self.slicing)})
        self._steps = np.array([p.step for p in self._progressions], np.int64)
        self._phases = np.array([p.phase for p in self._progressions], np.int64)

    def _require_edges(self) -> None:
        """Refuse to look for an edge where there is none."""
        if not self._progressions:
            raise ValueError("no window has joined, so there are no edges")


def _outermost(progressions: set[Progression]) -> tuple[Progression, ...]:
    """Drop every progression that lies within another."""
    steps = np.array(sorted({p.step for p in progressions}), np.int64)
    divisors = {int(step): [int(d) for d in steps[step % steps == 0] if d != step] for step in steps}
    return tuple(
        sorted(p for p in progressions if not any(Progression(d, p.phase) in progressions for d in divisors[p.step]))
    )


@dataclass(frozen=True, slots=True)
class Operations:
    """Counted aggregate operations: tuples folded into partials, and partials merged into answers."""

    partial: float
    final: float

    @property
    def total(self) -> float:
        """Return all operations together."""
        return self.partial + self.final


def paned_operations(tuples: float, range_: int, slide: int) -> Operations:
    """Return the operations of one paned window per period: |T| and r/g (Table 2)."""
    return Operations(tuples, range_ // math.gcd(range_, slide))


def paired_operations(tuples: float, range_: int, slide: int) -> Operations:
    """Return the operations of one paired window per period: |T| and ⌈2r/s⌉, or r/s if s divides r (Table 2)."""
    return Operations(tuples, range_ // slide if range_ % slide == 0 else -(-2 * range_ // slide))


def unshared_operations(tuples: float, windows: Sequence[Window]) -> Operations:
    """Return the operations of paired windows apart, per common period S: n|T| and Σ (S/sᵢ)⌈2rᵢ/sᵢ⌉ (Table 3)."""
    period = math.lcm(*(w.slide for w in windows))
    return Operations(len(windows) * tuples, sum(period // w.slide * -(-2 * w.length // w.slide) for w in windows))


def shared_operations(tuples: float, windows: Sequence[Window], edges: float) -> Operations:
    """Return the operations of shared slices per common period with E edges: |T| and Σ E·rᵢ/sᵢ (Table 3)."""
    return Operations(tuples, edges * sum(w.length / w.slide for w in windows))


def break_even_rate(windows: Sequence[Window], edge_rate: float) -> float:
    """Return the input rate above which sharing wins, both rates per unit of the windows' time (inequality (1)).

    A single window has nothing to share: its rate is 0.
    """
    if len(windows) < 2:
        return 0.0
    shared = edge_rate * sum(w.length / w.slide for w in windows)
    alone = 2 * sum(w.length / w.slide**2 for w in windows)
    return (shared - alone) / (len(windows) - 1)


def _union(progressions: Sequence[Progression], lo: int, hi: int) -> Int64Array:
    """List the distinct times of progressions from ``lo`` up to, not including, ``hi``, in order."""
    times = [progression.times(lo, hi) for progression in progressions]
    return times[0] if len(times) == 1 else np.unique(np.concatenate(times))


@lru_cache(maxsize=256)
def _edge_rate(progressions: tuple[Progression, ...], unit: int) -> float:
    """Count the edges once for all plans that cut in the same way."""
    period = math.lcm(*(p.step for p in progressions))
    most = sum(1 / p.step for p in progressions)
    stretch = period if period * most <= MOST_COUNTED else max(1, int(MOST_COUNTED / most))
    return len(_union(progressions, 0, stretch)) * unit / stretch

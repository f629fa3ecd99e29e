"""Counts the operations of Krishnamurthy et al. (2006, §4.3.3, Table 5), unshared and shared.

Operations are counted from the data alone, in numpy: any engine that follows the paper has to do them. All windows are
of whole seconds, so a trade's second tells its slice. With windows that overlap, a slice's fragments are shards (§5),
and the merging of slices to windows is counted apart (§3.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench._plain import Window
from bench._predicates.market import Exchange, Ints, Joined
from bench._predicates.queries import Predicate, Question

# Figures 14 to 16, 256 queries over one hour (Krishnamurthy et al. 2006, §6.3 and §6.4): seconds, operations.
PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "B": {
        "figure": 14,
        "unshared": {"seconds": 27.25, "partial": 0, "final": 116_101_112},
        "shared": {"seconds": 3.01, "partial": 1_094_947, "final": 6_677_009},
        "rows": 1_181_901,
        "rows_a_slice": 192_945,
        "fragments_a_slice": 11_407,
        "fragments_in_all": 34_327,
        "alpha": 76,
        "beta": 76,
    },
    "C regular": {
        "figure": 15,
        "unshared": {"seconds": 31.19, "partial": 100_902_960, "final": 6_955},
        "shared": {"seconds": 3.67, "partial": 1_138_636, "final": 2_256_496},
    },
    "C low": {
        "figure": 16,
        "unshared": {"seconds": 34.56, "partial": 120_672_210, "final": 6_812},
        "shared": {"seconds": 17.73, "partial": 1_294_064, "final": 63_984_043},
    },
}


@dataclass(frozen=True, slots=True)
class Operations:
    """Aggregations of one technique: rows into partials, partials into answers."""

    partial: int
    final: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The paper's parameters (Table 4) and what follows from them."""

    queries: int
    rows: int  # |T| of all slices together
    rows_taken: int  # by some query: the others are fragment F0, and dropped
    slices: int  # that hold a trade
    fragments: int  # k of all slices together: shards
    fragments_in_all: int  # different signatures, whatever the slice
    alpha: float
    beta: float
    unshared: Operations
    shared: Operations
    shared_by_predicate: Operations  # queries of one predicate take its fragments together, as here
    windows: int
    hours: float  # of event time

    def described(self) -> dict[str, Any]:
        """Put the counts in the form that files keep, with means over slices as the paper states them."""
        means = {"rows_a_slice": self.rows / self.slices, "fragments_a_slice": self.fragments / self.slices}
        return asdict(self) | {name: round(value, 1) for name, value in means.items()}


SHARD: Final = np.dtype([("shard", "u8"), ("signature", "u8"), ("predicates", "i8"), ("queries", "i8"), ("rows", "i8")])


class Shards:
    """The fragments of all slices; a signature is the sum of its predicates' random numbers, equal by chance never."""

    def __init__(self, predicates: Sequence[Predicate], users: Ints, edges: Ints) -> None:
        """Start with no trades; ``users`` is how many queries have each predicate."""
        draw = np.random.default_rng(1)
        self.predicates, self.users, self.edges = predicates, users, edges
        self._numbers = draw.integers(0, 1 << 64, len(predicates), np.uint64)
        self._odd = np.uint64(int(draw.integers(1 << 62, 1 << 63)) | 1)
        self._found: list[npt.NDArray[Any]] = []
        self.present = np.zeros((len(edges), len(predicates)), np.bool_)  # slice × predicate
        self.slices = np.zeros(len(edges), np.bool_)  # that hold a trade
        self.rows = 0

    def add(self, trades: Joined) -> None:
        """Add trades."""
        place = np.searchsorted(self.edges, trades.second, "right") - 1
        found = np.zeros(len(trades), SHARD)
        for number, predicate in enumerate(self.predicates):
            taken = predicate.takes(trades)
            found["signature"][taken] += self._numbers[number]
            found["predicates"][taken] += 1
            found["queries"][taken] += self.users[number]
            self.present[place[taken], number] = True
        self.slices[place] = True
        self.rows += len(trades)
        found["shard"] = found["signature"] + place.astype(np.uint64) * self._odd
        found["rows"] = 1
        self._found.append(_merged(found[found["predicates"] > 0]))

    def all(self) -> npt.NDArray[Any]:
        """Return every shard that some query takes, once."""
        return _merged(np.concatenate(self._found))


def count(exchange: Exchange, questions: Sequence[Question]) -> Counts:
    """Count the operations of a query set over all trades."""
    asked = Counter(q.predicate for q in questions if q.predicate is not None)
    first, last = exchange.seconds
    windows = tuple(dict.fromkeys(q.window for q in questions))
    shards = Shards(tuple(asked), np.array(list(asked.values()), np.int64), _edges(windows, first, last))
    for trades in exchange.joined():
        shards.add(trades)
    found = shards.all()
    taken, folded = int(found["rows"].sum()), int((found["queries"] * found["rows"]).sum())
    by_query, by_predicate = int(found["queries"].sum()), int(found["predicates"].sum())
    merging = _Merging(shards, (first, last))
    alone, together, answers = merging.count(questions)
    overlap = any(window.range_s > window.slide_s for window in windows)
    return Counts(
        queries=len(questions),
        rows=shards.rows,
        rows_taken=taken,
        slices=int(shards.slices.sum()),
        fragments=len(found),
        fragments_in_all=len(np.unique(found["signature"])),
        alpha=round(folded / shards.rows, 2),
        beta=round(by_query / max(1, len(found)), 2),
        unshared=Operations(folded, alone) if overlap else Operations(0, folded),
        shared=Operations(taken, by_query + (together if overlap else 0)),
        shared_by_predicate=Operations(taken, by_predicate + (together if overlap else 0)),
        windows=answers,
        hours=round((last - first) / 3600, 3),
    )


class _Merging:
    """Counts the slices that are merged to windows: those that hold a row of the query."""

    def __init__(self, shards: Shards, span: tuple[int, int]) -> None:
        """Sum up, predicate by predicate, how many slices hold a row before each edge."""
        self.edges, (self.first, self.last) = shards.edges, span
        self.number = {predicate: place for place, predicate in enumerate(shards.predicates)}
        before = np.cumsum(shards.present, axis=0, dtype=np.int64)
        self.before = np.vstack([np.zeros((1, len(self.number)), np.int64), before])

    def count(self, questions: Sequence[Question]) -> tuple[int, int, int]:
        """Return the merged slices with each query sliced alone and with all sliced together, and the windows."""
        alone = together = answers = 0
        for question in questions:
            ends = _ends(question.window, self.first, self.last)
            answers += len(ends)
            if question.predicate is None:
                continue
            before = self.before[:, self.number[question.predicate]]
            starts = ends - question.window.range_s
            together += int((self._at(before, ends) - self._at(before, starts)).sum())
            own = _edges((question.window,), self.first, self.last)
            filled = np.diff(self._at(before, own)) > 0
            own_before = np.concatenate([[0], np.cumsum(filled)])
            alone += int((own_before[np.searchsorted(own, ends)] - own_before[np.searchsorted(own, starts)]).sum())
        return alone, together, answers

    def _at(self, before: Ints, seconds: Ints) -> Ints:
        """Return how many slices hold a row before each of some edges."""
        found: Ints = before[np.searchsorted(self.edges, seconds)]
        return found


def _merged(found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Put rows of the same shard together."""
    _, example, place = np.unique(found["shard"], return_index=True, return_inverse=True)
    merged = found[example]
    merged["rows"] = np.bincount(place, found["rows"], len(merged)).astype(np.int64)
    return merged


def _ends(window: Window, first: int, last: int) -> Ints:
    """List the ends of the windows that hold a second from the first to the last."""
    return np.arange(first - first % window.slide_s + window.slide_s, last + window.range_s + 1, window.slide_s)


def _edges(windows: Sequence[Window], first: int, last: int) -> Ints:
    """List where some window starts or ends, and nothing else: paired slices (§3.1), those of all windows together."""
    ends = [_ends(window, first, last) for window in windows]
    starts = [each - window.range_s for each, window in zip(ends, windows, strict=True)]
    return np.unique(np.concatenate([*ends, *starts]))

"""Names what a stream holds: so many bytes of one kind, in a place, for some queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.stream.derived.row_times import RULERS

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

HeldIn: TypeAlias = Literal["memory", "disk"]  # of the driver; in files of the state folder


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that are held for some queries, by definition, evenly unless ``weights`` tell the part of each."""

    bytes: float
    users: Sequence[int]
    weights: Sequence[float] | None = None

    def shares(self) -> Iterator[tuple[int, float]]:
        """Divide the bytes among the users; what tells the times of a query's row numbers is the query's."""
        weights = self.weights if self.weights is not None and sum(self.weights) > 0 else [1.0] * len(self.users)
        total = sum(weights)
        for user, weight in zip(self.users, weights, strict=True):
            yield user % RULERS, self.bytes * weight / total


@dataclass(frozen=True, slots=True)
class Account:
    """One kind of what a stream holds, and what lists it."""

    kind: str
    place: HeldIn
    meaning: str
    of: Callable[[StreamRunner], Iterator[Holding]]


@dataclass(slots=True)
class Balance:
    """What is held in one place: in all, by kind, by query, and for no query."""

    by_kind: dict[str, float] = field(default_factory=dict)
    by_query: dict[int, float] = field(default_factory=dict)
    unshared: float = 0.0

    @property
    def total(self) -> float:
        """Return all bytes."""
        return sum(self.by_kind.values())

    def add(self, kind: str, holdings: Iterator[Holding]) -> None:
        """Add what is held of a kind."""
        for held in holdings:
            self.by_kind[kind] = self.by_kind.get(kind, 0.0) + held.bytes
            if not held.users:
                self.unshared += held.bytes
            for query, share in held.shares():
                self.by_query[query] = self.by_query.get(query, 0.0) + share


def rounded(by_kind: Mapping[str, float]) -> dict[str, int]:
    """Write bytes by kind as whole numbers, without what holds nothing."""
    return {kind: round(held) for kind, held in by_kind.items() if round(held)}

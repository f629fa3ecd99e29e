"""Defines a window join of two streams: which pairs of rows become rows of a stream of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isqrt
from typing import Any, Final, Self

from penstock.model.query import Output

LEFT: Final = "l."  # before the name of a column in expressions over a pair
RIGHT: Final = "r."
MOST_RETAINED: Final = 5_000_000  # rows of a side, unless the join says otherwise


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join: its stream, the columns of it that are equated, and how long a row of it waits for others.

    A row waits for a range of time, or until it is not one of the last rows of its partition any more.
    """

    stream: str
    keys: tuple[str, ...]
    range_us: int
    columns: tuple[str, ...] = ()  # all that the join reads of it
    rows: int = 0  # how many last ones of each partition are in the window; 0: it is a range
    partition: tuple[str, ...] = ()  # columns


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A window join: rows whose keys are equal, none later than the other's range, and that the condition takes.

    Expressions name columns `` `l.price` `` and `` `r.price` ``. One that may fail on a pair is attempted.
    """

    left: JoinSide
    right: JoinSide
    where: str | None
    outputs: tuple[Output, ...]
    fallible: bool = False  # the condition or an output may fail on a pair
    most_rows: int = MOST_RETAINED  # of a side: beyond, the side that is ahead waits for the other
    begins: tuple[int, int] = field(default=(-1, -1), compare=False)  # last commits of both whose rows it never takes

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        """Return both sides, the left one first."""
        return self.left, self.right

    @property
    def settles(self) -> bool:
        """Tell whether a pair is made only once no row is to come that could push one of its rows out."""
        return any(side.rows for side in self.sides)

    @property
    def shared_by(self) -> tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]:
        """Return what joins have in common that are carried out as one: both streams and their keys."""
        return (self.left.stream, self.left.keys), (self.right.stream, self.right.keys)

    def to_text(self) -> str:
        """Write the join as JSON."""
        told = asdict(self)
        for side in (told["left"], told["right"]):
            if not side["rows"]:  # as it was written before there were such windows
                del side["rows"], side["partition"]
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a join back."""
        told = json.loads(text)
        sides = {side: _side(told.pop(side)) for side in ("left", "right")}
        outputs = tuple(Output(**one) for one in told.pop("outputs"))
        return cls(**{**told, **sides, "outputs": outputs, "begins": tuple(told["begins"])})


@dataclass(frozen=True, slots=True)
class JoinNeeds:
    """What all joins over a stream need of its rows: columns, and the lists of keys by which they are found.

    Where rows push others out of a window, those without a key are needed ``whole``, and are told apart by number.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class RetainedRows:
    """The rows of one side that wait for others: how many, their bytes, and how long their stream was held back."""

    stream: str
    rows: int
    bytes: int
    most_rows: int  # beyond, the stream waits if it is ahead of the other one
    held: bool = False  # it waits now
    held_seconds: float = 0.0


def needs_of(stream: str, joins: Sequence[StreamJoin]) -> JoinNeeds | None:
    """Tell what joins need of a stream; None: no join reads it."""
    mine = [side for join in joins for side in join.sides if side.stream == stream]
    if not mine:
        return None
    columns = dict.fromkeys(name for side in mine for name in (*side.keys, *side.columns, *side.partition))
    whole = any(side.rows for side in mine)
    return JoinNeeds(tuple(sorted(columns)), tuple(sorted({side.keys for side in mine})), whole)


def code_name(keys: Sequence[str]) -> str:
    """Name the column with the hash of some keys; streams have no column of this name."""
    return f"__h{hashlib.sha256(chr(0).join(keys).encode()).hexdigest()[:12]}"


def paired(left: int, right: int) -> int:
    """Number a place in two sequences of commits, −1 before the first: later places have greater numbers (Cantor)."""
    both = left + right + 2
    return both * (both + 1) // 2 + right + 1


def place_of_pair(number: int) -> tuple[int, int]:
    """Return the place that a number stands for."""
    both = (isqrt(8 * number + 1) - 1) // 2
    right = number - both * (both + 1) // 2
    return both - right - 1, right - 1


def _side(record: dict[str, Any]) -> JoinSide:
    """Read one side back."""
    lists = {name: tuple(record.get(name, ())) for name in ("keys", "columns", "partition")}
    return JoinSide(**{**record, **lists})

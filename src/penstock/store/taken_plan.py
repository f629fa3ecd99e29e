"""Records which continuous queries a plan has, and where each finds its rows and columns in what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RowShape:
    """The outputs of queries: their names, and the stored columns that they are."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    exploded: bool = False


@dataclass(frozen=True, slots=True)
class TakingQuery:
    """Where one query finds the fragments that it takes."""

    definition: int
    shape: int  # among the plan's
    part: int  # of the conditions
    condition: int  # by its place in the part
    queued: bool = False  # its rows wait for operators: the shape is what these read, and no answer


@dataclass(frozen=True, slots=True)
class TakenPlan:
    """The queries that took the rows of some commits, the first of which names the plan."""

    number: int
    shapes: tuple[RowShape, ...]
    queries: tuple[TakingQuery, ...]
    sizes: tuple[int, ...]  # of the parts: how many conditions each has
    expensive: tuple[str, ...] = ()  # functions that are operators to the queued queries, as calls name them
    by_definition: Mapping[int, TakingQuery] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the queries that answer once."""
        object.__setattr__(self, "by_definition", {one.definition: one for one in self.queries if not one.queued})

    @property
    def queued(self) -> list[TakingQuery]:
        """List the queries whose rows wait for operators."""
        return [one for one in self.queries if one.queued]

    def to_record(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        listed = [
            (one.definition, one.shape, one.part, one.condition, *((True,) if one.queued else ()))
            for one in self.queries
        ]
        operators = {"expensive": self.expensive} if self.expensive else {}
        return {
            **operators,
            "number": self.number,
            "shapes": [asdict(s) for s in self.shapes],
            "queries": listed,
            "sizes": self.sizes,
        }

    @staticmethod
    def from_record(record: dict[str, Any]) -> TakenPlan:
        """Read a plan back."""
        shapes = [RowShape(tuple(s["names"]), tuple(s["columns"]), bool(s["exploded"])) for s in record["shapes"]]
        queries = tuple(TakingQuery(*one) for one in record["queries"])
        sizes, expensive = tuple(record["sizes"]), tuple(record.get("expensive", ()))
        return TakenPlan(int(record["number"]), tuple(shapes), queries, sizes, expensive)


@dataclass(frozen=True, slots=True)
class TakenCommit:
    """What is known of the rows that one commit stored."""

    number: int
    plan: int
    rows: int
    judged_us: int | None  # rows before this time were late; None: none was
    last_us: int  # the greatest time of a row
    past: bool = False  # rows of a backfill

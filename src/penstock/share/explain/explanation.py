"""Defines the explanation of plans, which prints as text, as JSON and as a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from penstock.evaluate.typed import Definition
from penstock.language.options import urgency_words
from penstock.model.counts import counted
from penstock.model.derived import is_line, source_of
from penstock.model.duration import SECOND, about
from penstock.model.window import RowsWindow, Window
from penstock.printable import shown
from penstock.schedule.running_together import DEFAULT_SYNCHRONIZATION
from penstock.share.explain.cells import PredicatesPlan
from penstock.share.explain.continuous import TakenRowsPlan
from penstock.share.explain.together import NOT_PLANNED, TogetherPlan
from penstock.share.explain.weave import WeavePlan
from penstock.share.fresh_periods import PeriodGroup
from penstock.share.slices import Slicing

MOST_NAMES: Final = 8  # of a long list, in text


def _measure(by_rows: bool) -> str:
    """Name what edges and operations are counted by: on a line of row numbers, rows stand for microseconds."""
    return "million rows" if by_rows else "second"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One query: its window, that of its text if it runs at another period, and how urgent it is, in words."""

    name: str
    window: Window
    asked: Window | None = None
    urgency: str = ""

    @staticmethod
    def of(definition: Definition) -> QueryPlan:
        """Explain a query of the catalog."""
        query, asked = definition.query, definition.asked
        return QueryPlan(query.name, query.window, None if query.window == asked else asked, urgency_words(query))

    def __str__(self) -> str:
        """Print the query as a plan names it."""
        asks = "" if self.asked is None else f" (asks for {self.asked})"
        urgency = f" ({self.urgency})" if self.urgency else ""
        return shown(f"{self.name} {self.window}{asks}{urgency}")

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        asked = {} if self.asked is None else {"asked": window_dict(self.asked)}
        urgency = {"urgency": self.urgency} if self.urgency else {}
        return {"name": self.name, "window": window_dict(self.window), **asked, **urgency}


@dataclass(frozen=True, slots=True)
class ConditionPlan:
    """Which rows are taken, and the queries that take them."""

    text: str  # joins and predicate together
    queries: tuple[QueryPlan, ...]
    where: str | None
    joins: tuple[str, ...]  # names of tables
    together: TogetherPlan = NOT_PLANNED  # what its queries share, if they run together

    def __str__(self) -> str:
        """Print the condition with its first queries."""
        more = f", … {len(self.queries) - MOST_NAMES} more" if len(self.queries) > MOST_NAMES else ""
        line = f"{shown(self.text)}: {', '.join(map(str, self.queries[:MOST_NAMES]))}{more}"
        return f"{line}\n  run together, {self.together}" if self.together.pays else line

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        queries = [q.to_dict() for q in self.queries]
        told = {"condition": self.text, "where": self.where, "joins": list(self.joins), "queries": queries}
        return told | {"together": self.together.to_dict()}


@dataclass(frozen=True, slots=True)
class GroupingPlan:
    """Partials by one list of keys, and the conditions under it."""

    keys: tuple[str, ...]
    partials: tuple[str, ...]
    conditions: tuple[ConditionPlan, ...]
    predicates: PredicatesPlan | None = None  # None: every row is taken
    made: str | None = None  # how, if not from rows in the driver: fed by a finer one, or kept by the executors

    @property
    def queries(self) -> tuple[QueryPlan, ...]:
        """List the queries of all conditions."""
        return tuple(q for c in self.conditions for q in c.queries)

    @property
    def by(self) -> str:
        """Name the keys; ``()`` stands for none."""
        return ", ".join(self.keys) or "()"

    def __str__(self) -> str:
        """Print the grouping, a line for each condition."""
        made = f" ({self.made})" if self.made else ""
        lines = [shown(f"group by {self.by}{made}: partials {', '.join(self.partials)}")]
        told = self.predicates.lines() if self.predicates is not None else []
        return "\n".join([*lines, *(_indented(str(one)) for one in self.conditions), *(f"  {line}" for line in told)])

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        conditions = [c.to_dict() for c in self.conditions]
        predicates = None if self.predicates is None else self.predicates.to_dict()
        told = {"keys": list(self.keys), "partials": list(self.partials), "conditions": conditions}
        return told | {"predicates": predicates, "made": self.made}


@dataclass(frozen=True, slots=True)
class TreePlan:
    """Queries that share one slicing: how often it cuts, and how a row finds its slice."""

    name: str
    slicing: Slicing
    windows: tuple[Window, ...]  # each once
    edges_per_second: float
    found_by: str
    groupings: tuple[GroupingPlan, ...]
    woven: WeavePlan | None = None  # None: by another strategy, or one tree for all

    @property
    def queries(self) -> tuple[QueryPlan, ...]:
        """List the queries of all groupings."""
        return tuple(q for g in self.groupings for q in g.queries)

    @property
    def mean_slice_us(self) -> int | None:
        """Return the mean length of a slice; None without edges."""
        return max(1, round(SECOND / self.edges_per_second)) if self.edges_per_second else None

    def __str__(self) -> str:
        """Print the tree and its groupings."""
        mean, by_rows = self.mean_slice_us, any(isinstance(window, RowsWindow) for window in self.windows)
        length = "" if mean is None else f"{mean:,} rows" if by_rows else about(mean)
        often = f"one every {length}" if mean else "none"
        found = f"{counted(len(self.queries), 'query', 'queries')}, {counted(len(self.windows), 'window')}"
        lines = [
            f"tree {shown(self.name)}: {found}, {self.slicing} slices",
            f"  edges {self.edges_per_second:.4g} per {_measure(by_rows)} ({often}), found by {self.found_by}",
        ]
        lines += [f"  {line}" for line in self.woven.lines()] if self.woven is not None else []
        return "\n".join([*lines, *(_indented(str(g)) for g in self.groupings)])

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "tree": self.name,
            "slicing": self.slicing,
            "windows": [window_dict(w) for w in self.windows],
            "edges_per_second": self.edges_per_second,
            "found_by": self.found_by,
            "groupings": [g.to_dict() for g in self.groupings],
            "woven": None if self.woven is None else self.woven.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """A table joined once for all queries that ask for it."""

    id: str
    table: str
    kind: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        """Print the join as a plan line."""
        return shown(f"join {self.table} on {', '.join(self.keys)}  ({self.id})")

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {"id": self.id, "table": self.table, "kind": self.kind, "keys": list(self.keys)}


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Operations per second of event time, as planned and with every query alone."""

    planned: float
    alone: float

    @property
    def saving(self) -> float:
        """Return how many times less work the plan is."""
        return self.alone / self.planned if self.planned else 1.0

    def __str__(self) -> str:
        """Print the comparison as a plan line."""
        return (
            f"operations per second (slice scan): {self.planned:,.0f} as planned, "
            f"{self.alone:,.0f} with every query alone ({self.saving:,.1f} times)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {"planned": self.planned, "alone": self.alone, "saving": self.saving}


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream: its joins, its trees, and what sharing saves."""

    stream: str
    strategy: str
    rows_per_second: float
    rate_seen: bool  # False: assumed, before any row came
    joins: tuple[JoinPlan, ...]
    trees: tuple[TreePlan, ...]
    work: OperationCounts | None  # None without queries
    synchronize: str = DEFAULT_SYNCHRONIZATION  # the technique by which evaluations run together
    periods: tuple[PeriodGroup, ...] = ()  # that the technique chooses for fresh queries over one synopsis
    rows: TakenRowsPlan | None = None  # of queries without a window; None: there are none
    pairs: tuple[str, ...] = ()  # of a stream that is a join of two: what it joins, and with which others together

    @property
    def queries(self) -> tuple[QueryPlan, ...]:
        """List the queries of all trees."""
        return tuple(q for tree in self.trees for q in tree.queries)

    @property
    def together(self) -> TogetherPlan:
        """Return what all queries share, if they run together."""
        conditions = (c for tree in self.trees for g in tree.groupings for c in g.conditions)
        return TogetherPlan.added(c.together for c in conditions)

    @property
    def rate(self) -> str:
        """Word the stream's rate."""
        if self.rate_seen:
            return f"{self.rows_per_second:,.1f} rows/s seen"
        return f"{self.rows_per_second:,.0f} rows/s assumed"

    def __str__(self) -> str:
        """Print the stream's plan; of many trees, the first."""
        number = len(self.queries) + (0 if self.rows is None else len(self.rows.queries))
        queries, trees = counted(number, "query", "queries"), counted(len(self.trees), "tree")
        what = f"{queries}, {self.strategy}, {trees}"
        by_rows = is_line(self.stream)
        lines = [f"stream {shown(self.stream)}: {what}, {self.rate}"]
        if by_rows:
            lines = [f"numbered rows of stream {shown(source_of(self.stream))}: {what}"]
        lines = [*self.pairs, *lines, *(f"  {join}" for join in self.joins)]
        lines += [_indented(str(tree)) for tree in self.trees[:MOST_NAMES]]
        if len(self.trees) > MOST_NAMES:
            lines.append(f"  … and {counted(len(self.trees) - MOST_NAMES, 'more tree')}")
        lines += [f"  {line}" for line in self.rows.lines()] if self.rows is not None else []
        if self.work is not None:
            lines.append(f"  {self.work}".replace("per second", f"per {_measure(by_rows)}"))
            lines.append(f"  run together by {self.synchronize}: {self.together}")
            lines += [f"  periods by {self.synchronize}: {shown(str(group))}" for group in self.periods[:MOST_NAMES]]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "stream": self.stream,
            "strategy": self.strategy,
            "rows_per_second": self.rows_per_second,
            "rate_seen": self.rate_seen,
            "pairs": list(self.pairs),
            "joins": [join.to_dict() for join in self.joins],
            "trees": [tree.to_dict() for tree in self.trees],
            "each_row": None if self.rows is None else self.rows.to_dict(),
            "operations_per_second": None if self.work is None else self.work.to_dict(),
            "run_together": {"technique": self.synchronize, "queries": self.together.to_dict()},
            "periods": [group.to_dict() for group in self.periods],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plans of all streams."""

    streams: tuple[StreamPlan, ...]

    @property
    def queries(self) -> tuple[QueryPlan, ...]:
        """List the queries of all streams."""
        return tuple(q for stream in self.streams for q in stream.queries)

    def __str__(self) -> str:
        """Print every stream's plan, an empty line between two."""
        return "\n\n".join(map(str, self.streams))

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads; json.dumps takes it as it is."""
        return {"streams": [stream.to_dict() for stream in self.streams]}

    def _repr_html_(self) -> str:
        """Show the plans in a notebook: a row for each condition."""
        heads = ("stream", "tree", "group by", "condition", "queries", "windows")
        head = "".join(f"<th>{h}</th>" for h in heads)
        body = "".join(f"<tr>{''.join(cells)}</tr>" for stream in self.streams for cells in _notebook_rows(stream))
        work = "".join(f"<p>{escape(shown(s.stream))}: {escape(str(s.work))}</p>" for s in self.streams if s.work)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{work}"


def window_dict(window: Window) -> dict[str, Any]:
    """Return a window as a program reads it."""
    if isinstance(window, RowsWindow):
        return {"text": str(window), "rows": window.length, "slide_rows": window.slide}
    lengths = {"range_us": window.length, "slide_us": window.slide, "offset_us": window.offset}
    return {"text": str(window), **lengths}


def _notebook_rows(stream: StreamPlan) -> Iterator[list[str]]:
    """Write the cells of each condition of a stream."""
    for tree in stream.trees:
        for grouping in tree.groupings:
            for condition in grouping.conditions:
                words = (stream.stream, tree.name, grouping.by, condition.text)
                cells = [f'<td style="text-align:left">{escape(shown(word))}</td>' for word in words]
                numbers = (len(condition.queries), len({q.window for q in condition.queries}))
                yield cells + [f"<td>{number:,}</td>" for number in numbers]


def _indented(text: str) -> str:
    """Move every line to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())

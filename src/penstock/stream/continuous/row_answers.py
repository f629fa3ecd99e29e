"""Reads rows that are stored once as each continuous query, or each sink, is to have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import EACH_ROW, Definition
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.continuous import column_name, part_name
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import AT_ONCE, LATE, TakenRows, numbers_of
from penstock.store.taken_plan import RowShape, TakenCommit, TakenPlan

INSTANT: Final = pa.timestamp("us", tz="UTC")
MOST_PAIRS: Final = 1_000_000  # of a row and a query in one table


def answers_of_query(
    rows: TakenRows, definition: Definition, commit: TakenCommit, since_us: int | None = None
) -> Iterator[pa.Table]:
    """Read the rows of one commit that a query takes, in its own columns."""
    plan, takers = rows.plan(commit.plan)
    query = plan.by_definition.get(definition.id)
    if query is None:
        return
    shape, part = plan.shapes[query.shape], part_name(query.part)
    wanted = dict.fromkeys([TIME, LATE, part, *(column_name(place) for place in shape.columns)])
    for first, piece in rows.pieces(commit, list(wanted)):
        taken = takers.parts[query.part].takes(query.condition, numbers_of(piece, part))
        if since_us is not None:
            taken &= numbers_of(piece, TIME) >= since_us
        if taken.any():
            about = about_rows(piece, first, taken, commit)
            mine = piece.filter(pa.array(taken))
            yield pa.table([*about, *outputs_of(mine, shape)], names=definition.typed.schema.names).cast(
                definition.typed.schema
            )


def about_rows(piece: pa.Table, first: int, taken: BoolArray, commit: TakenCommit) -> list[pa.Array]:
    """Write when rows happened, the commit that brought them, their ordinals, and whether they were late."""
    places = np.flatnonzero(taken)
    times = numbers_of(piece, TIME)[places]
    if LATE in piece.column_names:
        late = np.asarray(piece[LATE].to_numpy(), np.bool_)[places]
    else:
        late = times < commit.judged_us if commit.judged_us is not None else np.zeros(len(places), np.bool_)
    numbers = np.full(len(places), commit.number, np.int64)
    return [pa.array(times).view(INSTANT), pa.array(numbers), pa.array(places + first), pa.array(late)]


def outputs_of(piece: pa.Table, shape: RowShape) -> list[pa.ChunkedArray | pa.Array]:
    """Return the columns of a shape; a column that is not stored holds nothing but NULL."""
    known = set(piece.column_names)
    names = [column_name(place) for place in shape.columns]
    return [piece[name] if name in known else pa.nulls(piece.num_rows) for name in names]


# Sinks.


@dataclass(frozen=True, slots=True)
class SinkShape:
    """What a sink gets together: rows of queries whose columns do not contradict each other."""

    shape: RowShape
    queries: tuple[int, ...]  # by their place in the plan


def sink_shapes(plan: TakenPlan) -> list[SinkShape]:
    """Put queries together whose rows a sink gets once; exploded ones by their own columns."""
    found: list[tuple[dict[str, int], bool, list[int]]] = []
    answering = {query.shape for query in plan.queries if not query.queued}
    for number, shape in enumerate(plan.shapes):
        if number not in answering:
            continue
        named = dict(zip(shape.names, shape.columns, strict=True))
        for columns, exploded, shapes in found:
            fits = named == columns if shape.exploded else all(columns.get(n, c) == c for n, c in named.items())
            if exploded == shape.exploded and fits:
                columns |= named
                shapes.append(number)
                break
        else:
            found.append((dict(named), shape.exploded, [number]))
    by_shape: dict[int, list[int]] = {}
    for place, query in enumerate(plan.queries):
        if not query.queued:
            by_shape.setdefault(query.shape, []).append(place)
    return [
        SinkShape(
            RowShape(tuple(columns), tuple(columns.values()), exploded),
            tuple(sorted(place for shape in shapes for place in by_shape.get(shape, ()))),
        )
        for columns, exploded, shapes in found
    ]


def query_shapes(plan: TakenPlan) -> list[SinkShape]:
    """Put queries together that have the same columns, for a sink that keeps each query's rows apart."""
    found: dict[RowShape, list[int]] = {}
    for place, query in enumerate(plan.queries):
        if query.queued:
            continue
        shape = plan.shapes[query.shape]
        found.setdefault(RowShape(shape.names, shape.columns, True), []).append(place)
    return [SinkShape(shape, tuple(places)) for shape, places in found.items()]


class SinkTables(Sequence[pa.Table]):
    """The rows of one commit as sinks get them, read and written out one piece at a time."""

    def __init__(
        self,
        rows: TakenRows,
        commit: TakenCommit,
        names: Mapping[int, str],
        versions: Mapping[int, int],
        shapes: Callable[[TakenPlan], list[SinkShape]] = sink_shapes,
    ) -> None:
        """Take a commit, and the names and versions of its queries by definition."""
        self.rows, self.commit, self._known = rows, commit, (names, versions)
        self.plan, self.takers = rows.plan(commit.plan)
        self.shapes = shapes(self.plan)
        queries = [query.definition for query in self.plan.queries]
        self._names = pa.array([names[number] for number in queries], pa.string())
        self._versions = pa.array([versions[number] for number in queries], pa.int32())
        self._by_condition = _by_condition(self.plan)
        self._pieces: Iterator[tuple[int, pa.Table]] | None = None
        self._made: dict[int, list[pa.Table]] = {}

    def for_each_query(self) -> SinkTables:
        """Give each row for every query that takes it, in the query's own columns."""
        return SinkTables(self.rows, self.commit, *self._known, query_shapes)

    @property
    def pieces(self) -> int:
        """Count the pieces, if the commit's rows were in one file."""
        return -(-self.commit.rows // AT_ONCE)

    def tables(self) -> Iterator[pa.Table]:
        """Write all pieces."""
        for first, piece in self.rows.pieces(self.commit):
            yield from self._written(piece, first)

    def __iter__(self) -> Iterator[pa.Table]:
        """Write all pieces."""
        return self.tables()

    def __len__(self) -> int:
        """Count the tables at least: none only where there are no rows."""
        return self.pieces

    @overload
    def __getitem__(self, place: int) -> pa.Table: ...

    @overload
    def __getitem__(self, place: slice) -> list[pa.Table]: ...

    def __getitem__(self, place: int | slice) -> pa.Table | list[pa.Table]:
        """Write some tables; all pieces before them are read."""
        return list(self.tables())[place]

    def _written(self, piece: pa.Table, first: int) -> Iterator[pa.Table]:
        """Write one piece for each list of columns."""
        row, query = self._pairs(piece)
        for shape in self.shapes:
            mine = np.isin(query, np.array(shape.queries, np.int64)) if len(self.shapes) > 1 else slice(None)
            rows, queries = row[mine], query[mine]
            if not len(rows):
                continue
            if not shape.shape.exploded:
                yield self._listed(piece, first, shape, rows, queries)
                continue
            for at in range(0, len(rows), MOST_PAIRS):
                some = slice(at, at + MOST_PAIRS)
                yield self._exploded(piece, first, shape, rows[some], queries[some])

    def _pairs(self, piece: pa.Table) -> tuple[Int64Array, Int64Array]:
        """List all pairs of a row and a query, by its place in the plan, that takes it, in order."""
        rows, queries = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number, part in enumerate(self.takers.parts):
            row, condition = part.pairs(numbers_of(piece, part_name(number)))
            starts, listed = self._by_condition[number]
            lengths = (starts[1:] - starts[:-1])[condition]
            within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            rows.append(np.repeat(row, lengths))
            queries.append(listed[np.repeat(starts[condition], lengths) + within])
        row, query = np.concatenate(rows), np.concatenate(queries)
        order = np.lexsort((query, row))
        return row[order], query[order]

    def _listed(self, piece: pa.Table, first: int, shape: SinkShape, row: Int64Array, query: Int64Array) -> pa.Table:
        """Write each row once, with the list of its queries."""
        taken = np.zeros(piece.num_rows, np.bool_)
        taken[row] = True
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=piece.num_rows)[taken])]).astype(np.int32)
        queries = pa.ListArray.from_arrays(pa.array(offsets), self._names.take(pa.array(query)))
        about = about_rows(piece, first, taken, self.commit)
        mine = piece.filter(pa.array(taken))
        names = ["queries", *(field.name for field in EACH_ROW), *shape.shape.names]
        return pa.table([queries, *about, *outputs_of(mine, shape.shape)], names=names)

    def _exploded(self, piece: pa.Table, first: int, shape: SinkShape, row: Int64Array, query: Int64Array) -> pa.Table:
        """Write each row for every query that takes it."""
        whole = np.ones(piece.num_rows, np.bool_)
        chosen = pa.array(row)
        about = [column.take(chosen) for column in about_rows(piece, first, whole, self.commit)]
        mine = piece.take(chosen)
        named = [self._names.take(pa.array(query)), self._versions.take(pa.array(query))]
        names = ["query_name", "query_version", *(field.name for field in EACH_ROW), *shape.shape.names]
        return pa.table([*named, *about, *outputs_of(mine, shape.shape)], names=names)


class HeldTables(list[pa.Table]):
    """The rows of one commit as most sinks get them, in memory; for others they are read again."""

    def __init__(self, tables: SinkTables) -> None:
        """Read them."""
        super().__init__(tables.tables())
        self.for_each_query = tables.for_each_query


def _by_condition(plan: TakenPlan) -> list[tuple[Int64Array, Int64Array]]:
    """List, part by part, the queries of each condition: where they start, and their places in the plan."""
    found = []
    for number, size in enumerate(plan.sizes):
        answering = [(place, query) for place, query in enumerate(plan.queries) if not query.queued]
        mine = [(query.condition, place) for place, query in answering if query.part == number]
        mine.sort()
        counts = np.bincount([condition for condition, _ in mine], minlength=size) if mine else np.zeros(size, np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        found.append((starts, np.array([place for _, place in mine], np.int64)))
    return found

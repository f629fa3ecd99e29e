"""Remembers the last answer of each window and group that late rows may revise, and words corrections.

Tables of such answers have three kinds of columns more: ``#revision`` counts from 0 for each window and group,
``#op`` is ``answer``, ``revise`` or ``retract``, and ``#k0``… are the keys of the group: SELECT may leave them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.groups import Groups, sort_keys, sort_rows
from penstock.model.arrays import Int64Array
from penstock.store.answers import DEFINITION

Place = tuple[int, int]  # a window's end and a group's number
SortedBy = tuple[str, bool, bool]  # an output's name, whether it descends, and whether its NULLs come first

REVISION: Final = "#revision"
OP: Final = "#op"
KEY: Final = "#k"
ROW: Final = "#row"  # of a window of rows: the number of its last row, from the query's first one on


def first_revision(answers: pa.Table, keys: Sequence[pa.ChunkedArray]) -> pa.Table:
    """Mark answers as the first of their windows, and add their groups' keys."""
    answers = answers.append_column(REVISION, pa.array(np.zeros(answers.num_rows, np.int32)))
    answers = answers.append_column(OP, pa.repeat(pa.scalar("answer"), answers.num_rows))
    return with_keys(answers, keys)


def with_keys(answers: pa.Table, keys: Sequence[pa.ChunkedArray]) -> pa.Table:
    """Add their groups' keys to answers."""
    for number, key in enumerate(keys):
        answers = answers.append_column(f"{KEY}{number}", key)
    return answers


def is_revised(answers: pa.Table) -> bool:
    """Tell whether late rows may revise a table's answers."""
    return REVISION in answers.column_names


ENTRY: Final = 200  # bytes, about: what is remembered of a window and group besides the table


@dataclass(frozen=True, slots=True)
class _Said:
    """What was last said of a window and group: a row of a table."""

    table: pa.Table
    row: int
    revision: int
    present: bool


class Revisions:
    """Remembers, query by query, what was last said of the windows that may still be revised."""

    def __init__(self) -> None:
        """Start empty."""
        self._said: dict[int, dict[int, dict[int, _Said]]] = {}  # definition → window end → group

    def bytes_by_query(self) -> dict[int, int]:
        """Return about how much memory the answers of each query take; any thread may ask."""
        found: dict[int, int] = {}
        for definition, by_end in list(self._said.items()):
            tables: dict[int, int] = {}
            entries = 0
            for said in list(by_end.values()):
                known = list(said.values())
                entries += len(known)
                tables |= {id(one.table): one.table.nbytes for one in known}
            found[definition] = entries * ENTRY + sum(tables.values())
        return found

    def note(self, answers: pa.Table, groups: Mapping[int, Groups]) -> None:
        """Remember answers, later ones over earlier ones; ``groups`` numbers the groups of each definition."""
        definitions, ends = answers[DEFINITION].to_numpy(), _ends(answers)
        for definition in np.unique(definitions).tolist():
            if definition not in groups:
                continue
            rows = np.flatnonzero(definitions == definition)
            mine = answers.take(pa.array(rows))
            numbers, revisions = group_numbers(mine, groups[definition]), mine[REVISION].to_pylist()
            present = [op != "retract" for op in mine[OP].to_pylist()]
            by_end = self._said.setdefault(definition, {})
            for row, (end, group) in enumerate(zip(ends[rows].tolist(), numbers.tolist(), strict=True)):
                by_end.setdefault(end, {})[group] = _Said(mine, row, revisions[row], present[row])

    def forget(self, horizons: Mapping[int, int]) -> None:
        """Forget windows that end at or before their definition's horizon, and definitions that have none."""
        self._said = {d: by_end for d, by_end in self._said.items() if d in horizons}
        for definition, by_end in self._said.items():
            for end in [end for end in by_end if end <= horizons[definition]]:
                del by_end[end]

    def standing(self, definition: int, ends: Iterable[int]) -> list[Place]:
        """List the windows and groups, of some windows, of which an answer stands."""
        by_end = self._said.get(definition, {})
        return [(end, group) for end in ends for group, said in by_end.get(end, {}).items() if said.present]

    def changed(
        self,
        definition: int,
        answers: pa.Table,
        numbers: Int64Array,
        places: Iterable[Place],
        others: Iterable[Place] = (),
    ) -> list[pa.Table]:
        """Compare answers computed anew with what was last said of the places, and word what differs.

        Of the ``others``, whose rows are the same as before, it is compared only whether they are answered.
        """
        found = {place: row for row, place in enumerate(zip(_ends(answers).tolist(), numbers.tolist(), strict=True))}
        anew: list[tuple[int, int]] = []  # row, revision
        gone: list[_Said] = []
        touched = dict.fromkeys(places)
        for place in (*touched, *others):
            said, row = self._last(definition, place), found.get(place)
            if row is None:
                gone += [said] if said is not None and said.present else []
            elif said is None:
                anew.append((row, 0))
            elif not said.present or (place in touched and not _same(said.table, said.row, answers, row)):
                anew.append((row, said.revision + 1))
        return _worded(answers, anew) + [_retracted(said) for said in gone]

    def _last(self, definition: int, place: Place) -> _Said | None:
        """Find what was last said of a window and group."""
        return self._said.get(definition, {}).get(place[0], {}).get(place[1])


def group_numbers(answers: pa.Table, groups: Groups) -> Int64Array:
    """Number the groups of answers."""
    keys = [answers[name] for name in answers.column_names if name.startswith(KEY)]
    return groups.encode(keys) if keys else np.zeros(answers.num_rows, np.int64)


def current_answers(log: pa.Table, order: Sequence[SortedBy] = ()) -> pa.Table:
    """Keep of each window and group what was said last, unless it was taken back; by window, ``order``, then group."""
    keys = [log[name] for name in log.column_names if name.startswith(KEY)]
    numbers = Groups([k.type for k in keys]).encode(keys) if keys else np.zeros(log.num_rows, np.int64)
    last = {place: row for row, place in enumerate(zip(_ends(log).tolist(), numbers.tolist(), strict=True))}
    rows = log.take(pa.array(sorted(last.values()), pa.int64()))
    standing = in_order(rows.filter(pc.not_equal(rows[OP], "retract")))
    if not order:
        return standing
    keys = [standing["window_end"].cast(pa.int64()), *(standing[name] for name, _, _ in order)]
    ways = [(False, True), *((descending, nulls_first) for _, descending, nulls_first in order)]
    return standing.take(pa.array(sort_rows([key.combine_chunks() for key in keys], ways)))


def shown_answers(
    log: Sequence[pa.Table],
    schema: pa.Schema,
    *,
    revisions: bool,
    by: Sequence[str] = (),
    order: Sequence[SortedBy] = (),
) -> pa.Table:
    """Show a query's answers as they stand, or all that was ever said, with its revision and what was done.

    Answers that executors wrote are put in order ``by`` their keys; those that were revised in the ``order`` of their
    query, and all others are in it.
    """
    if not any(is_revised(table) for table in log):
        plain = sorted_answers(log, schema, by, ordered=bool(order))
        return _first_said(plain, with_revisions(schema)) if revisions else plain
    whole = pa.concat_tables(log).combine_chunks()
    if not revisions:
        return current_answers(whole, order).select(schema.names).cast(schema)
    said = in_order(whole).rename_columns({REVISION: "revision", OP: "op"})
    return said.select(with_revisions(schema).names).cast(with_revisions(schema))


def _first_said(answers: pa.Table, schema: pa.Schema) -> pa.Table:
    """Show answers that are never revised with a revision."""
    said = first_revision(answers, ()).rename_columns({REVISION: "revision", OP: "op"})
    return said.select(schema.names).cast(schema)


def with_revisions(schema: pa.Schema) -> pa.Schema:
    """Add to a query's columns those that tell revisions."""
    return schema.insert(2, pa.field("revision", pa.int32())).insert(3, pa.field("op", pa.string()))


def sorted_answers(
    tables: Sequence[pa.Table], schema: pa.Schema, by: Sequence[str] = (), *, ordered: bool = False
) -> pa.Table:
    """Put a query's answers in the order of their windows; groups are in order within one, or put so ``by`` keys.

    Answers that are ``ordered`` by ORDER BY stay so within a window.
    """
    if not tables:
        return schema.empty_table()
    if not ordered and all(ROW in t.column_names and KEY + "0" in t.column_names for t in tables):
        return _by_parts(pa.concat_tables(tables).combine_chunks()).select(schema.names).cast(schema)
    whole = pa.concat_tables([t.select(schema.names).cast(schema) for t in tables]).combine_chunks()
    if by:
        keys = [whole[name].combine_chunks() for name in by]
        return whole.take(pa.array(sort_keys([whole["window_end"].cast(pa.int64()).combine_chunks(), *keys])))
    order = np.argsort(whole["window_end"].cast(pa.int64()).to_numpy(), kind="stable")
    return whole.take(pa.array(order))


def _by_parts(log: pa.Table) -> pa.Table:
    """Sort answers of windows of rows that are numbered apart: by the last row's time, then group, then number."""
    keys = [log[name].combine_chunks() for name in log.column_names if name.startswith(KEY)]
    ends, rows = log["window_end"].cast(pa.int64()).combine_chunks(), log[ROW].combine_chunks()
    return log.take(pa.array(sort_keys([ends, *keys, rows])))


def in_order(log: pa.Table) -> pa.Table:
    """Sort revisable answers by window, then group, then revision."""
    keys = [log[name].combine_chunks() for name in log.column_names if name.startswith(KEY)]
    ends, revisions = log["window_end"].cast(pa.int64()).combine_chunks(), log[REVISION].combine_chunks()
    return log.take(pa.array(sort_keys([ends, *keys, revisions])))


def _ends(answers: pa.Table) -> Int64Array:
    """Read the ends of answers' windows."""
    return np.asarray(answers["window_end"].cast(pa.int64()).to_numpy(), np.int64)


def _outputs(answers: pa.Table) -> list[str]:
    """List the columns that a user sees."""
    return [name for name in answers.column_names if not name.startswith("#")]


def _same(old: pa.Table, old_row: int, new: pa.Table, new_row: int) -> bool:
    """Tell whether two rows say the same; NaN is NaN."""
    for name in _outputs(new):
        before, after = (_cell(t[name], r) for t, r in ((old, old_row), (new, new_row)))
        if not before.equals(after) and not _both_nan(before, after):
            return False
    return True


def _cell(column: pa.ChunkedArray, row: int) -> pa.Array:
    """Take one value as an array: scalars of far years cannot be read."""
    return column.slice(row, 1).combine_chunks()


def _both_nan(one: pa.Array, other: pa.Array) -> bool:
    """Tell whether two values are NaN."""
    if not pa.types.is_floating(one.type):
        return False
    values: list[Any] = [one[0].as_py(), other[0].as_py()]
    return all(v is not None and v != v for v in values)


def _worded(answers: pa.Table, rows: Sequence[tuple[int, int]]) -> list[pa.Table]:
    """Write the rows that changed, with their revisions."""
    if not rows:
        return []
    revisions = [revision for _, revision in rows]
    ops = ["revise" if revision else "answer" for revision in revisions]
    return [_marked(answers.take(pa.array([row for row, _ in rows], pa.int64())), revisions, ops)]


def _retracted(said: _Said) -> pa.Table:
    """Take back what was said last."""
    return _marked(said.table.slice(said.row, 1), [said.revision + 1], ["retract"])


def _marked(answers: pa.Table, revisions: Sequence[int], ops: Sequence[str]) -> pa.Table:
    """Put revisions and what is done in place of those that are there."""
    for name, values in ((REVISION, pa.array(revisions, pa.int32())), (OP, pa.array(ops, pa.string()))):
        answers = answers.set_column(answers.column_names.index(name), name, values)
    return answers

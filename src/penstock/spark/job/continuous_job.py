"""Selects the rows that some continuous query takes, with what is answered of them: the second action of a batch.

Conditions are told apart as those of windows are. Expressions are computed of rows that somebody takes, and of no
others; what may fail is attempted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.language.binding.columns_read import reading
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.conditions.cells import CellPart, Cells
from penstock.share.conditions.listed_fragments import with_listed_fragments
from penstock.share.continuous import ContinuousPlan, column_name, part_name
from penstock.spark.job.attempt import attempt_text
from penstock.spark.job.attempting_writer import NOT_COMPUTED
from penstock.spark.job.jvm_columns import keep, written
from penstock.spark.job.literals import quoted
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds, Writer
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.sources.computed_columns import inputs_of

HASH: Final = "h"  # of what is answered of a row: the second thing that few rows are sorted by
ASKED: Final = "__asked"  # whether somebody takes a row
FAILURES: Final = "e"  # a bit for each expression that may fail, and did; not there if none may
MOST_FAILING: Final = 62  # expressions that have a bit of their own; all others share one more


class ContinuousWriter(Writer):
    """A writer of conditions that fail where a column that they read could not be computed."""

    def told_apart(self, families: ConditionGroupMemory) -> Cells:
        """Divide rows into cells, and list the fragments of more of them than windows need."""
        return with_listed_fragments(super().told_apart(families))

    @property
    def instead(self) -> Mapping[str, str]:
        """Write how columns that may not be there are read."""
        doubtful = [c.name for c in self.layout.doubtful if c.name != self.layout.time]
        return {
            name: f"IF({quoted(inputs_of(name))} IS NULL, {quoted(name)}, raise_error('{NOT_COMPUTED}'))"
            for name in doubtful
        }

    def guarded(self, text: str) -> str:
        """Write an expression so that it fails where a column that it reads could not be computed."""
        return reading(text, self.instead) if self.layout.doubtful else text

    def read(self, text: str) -> str:
        """Write where the value of an expression is read."""
        return self.guarded(text)

    def rows(self) -> list[list[Column]]:
        """Write a row's columns step by step; what is attempted is attempted with its guard."""
        attempts = self.numbering.attempts
        if not (attempts and self.layout.doubtful):
            return super().rows()
        tried = [attempt_text(self.guarded(text), name) for text, name in attempts.items()]
        return [[written("*"), *tried], *super().rows()[1:]]


class ContinuousJob(PartialsJob):
    """The job of one plan of continuous queries: its columns are written once and used for every batch."""

    def __init__(self, plan: ContinuousPlan, families: ConditionGroupMemory) -> None:
        """Write the columns and keep them in the JVM."""
        self.plan = plan
        super().__init__(plan.layout, families)

    def _writer(self, families: ConditionGroupMemory) -> Writer:
        """Choose who writes the expressions."""
        return ContinuousWriter(self.layout, families)

    def _prepare(self) -> None:
        """Write what comes after the rows' own columns."""
        plan, writer = self.plan, self.writer
        self.parts = writer.cells.parts[0]
        cells = writer.columns_of(self.layout.members[0])
        self._taken = " OR ".join(f"{name} > 0" for name in cells)
        tried = {text: f"__y{place}" for place, text in enumerate(sorted(plan.fallible))}
        self.tried_texts = list(tried)
        attempts = [attempt_text(writer.guarded(text), name) for text, name in tried.items()]
        self._attempts = keep([written("*"), *attempts]) if attempts else None
        values = [f"{tried[text]}.v" if text in tried else text for text in plan.texts]
        self.stored = [place for place, found in enumerate(plan.types) if not pa.types.is_null(found)]
        found = {column_name(place): values[place] for place in self.stored}
        found |= {part_name(part): _narrow(self.parts[part], name) for part, name in enumerate(cells)}
        if tried:
            found[FAILURES] = _failures(list(tried.values()))
        hashed = [values[place] for place in self.stored if not _has_map(plan.types[place])]
        last = [written("__t", TIME)]
        self._columns = keep([*(written(text, name) for name, text in found.items()), *last])
        hash_of = f"xxhash64({', '.join(hashed)})" if hashed else "0L"
        self._hashed = keep([*self._columns.columns, written(hash_of, HASH)])
        masked = {name: text for name, text in found.items() if name != FAILURES} | {HASH: hash_of}
        answered = {part_name(part) for part in range(len(cells))}
        asked = {n: text if n in answered else f"IF({ASKED}, {text}, NULL)" for n, text in masked.items()}
        self._marked = keep([written("*"), written(self._taken, ASKED)])
        self._every = keep([*(written(text, name) for name, text in asked.items()), *last])

    def taken(
        self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds, *, hashed: bool = False
    ) -> DataFrame:
        """Select what is answered of the rows that somebody takes, and perhaps a hash of it."""
        rows = self.rows(batch, tables, bounds).where(self._taken)
        if self._attempts is not None:
            rows = self._attempts.select(rows)
        return (self._hashed if hashed else self._columns).select(rows)

    @property
    def can_send_every_row(self) -> bool:
        """Tell whether rows that nobody takes may be sent, too: each is there once, and no output may fail."""
        return not (self.plan.fallible or self.layout.plan.joins or self.layout.doubtful)

    def every(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        """Select the time of every row, and what is answered of those that somebody takes, with a hash of it."""
        return self._every.select(self._marked.select(self.rows(batch, tables, bounds)))


def _narrow(part: CellPart, text: str) -> str:
    """Write a number with as few bytes as it needs."""
    return text if part.cells >= 1 << 31 else f"cast({text} as int)"


def _failures(names: list[str]) -> str:
    """Write the bits of the expressions that failed."""
    bits = [f"IF({name} IS NULL, {1 << min(place, MOST_FAILING)}L, 0L)" for place, name in enumerate(names)]
    return " | ".join(bits)


def _has_map(found: pa.DataType) -> bool:
    """Tell whether values hold maps, which have no hash."""
    if pa.types.is_map(found):
        return True
    return any(_has_map(found.field(place).type) for place in range(found.num_fields))

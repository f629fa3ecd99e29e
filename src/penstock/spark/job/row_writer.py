"""Writes the job of a batch whose rows are sent to the driver instead of being aggregated by Spark.

A row is sent once, with its slice in every tree, its cell in every grouping, and every key and argument that some
grouping needs. There is no copy of it for each grouping, and no shuffle.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column

from penstock.evaluate.components.numbers import ROWS, Component
from penstock.kernel.row_placement import TestedColumns
from penstock.share.conditions.axes import AxisKey
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.conditions.cells import Cells
from penstock.share.conditions.condition_cells import tell_lone_apart
from penstock.share.layout import Layout
from penstock.share.row_schema import (
    BASE_FLAG,
    DOUBTED_FLAG,
    REVISED_FLAG,
    SHED_FLAG,
    SIGN,
    TIME,
    RowSchema,
    failed_name,
    label_name,
)
from penstock.spark.job.attempt import attempt_text
from penstock.spark.job.cell_numbers import ordered
from penstock.spark.job.jvm_columns import written
from penstock.spark.job.literals import quoted
from penstock.spark.job.many_trees import many_trees
from penstock.spark.job.writer import AHEAD, WATERMARK, Writer
from penstock.spark.sources.computed_columns import inputs_of
from penstock.store.invalid import FLOOR


def can_send_rows(layout: Layout) -> bool:
    """Tell whether the driver can aggregate all that a layout asks for."""
    if layout.attempts or layout.spread or many_trees(layout) is not None:
        return False
    keys = [key for m in layout.members for key in m.grouping.key_types]
    return not any(map(pa.types.is_nested, keys)) and all(map(_is_made_of_rows, layout.components))


def _is_made_of_rows(component: Component) -> bool:
    """Tell whether a component can be aggregated outside of Spark."""
    return component == ROWS or component.row_texts(str, TIME) is not None


class RowWriter(Writer):
    """A writer whose job ends with a projection of rows."""

    may_be_direct: ClassVar = False

    def __init__(self, layout: Layout, families: ConditionGroupMemory) -> None:
        """List what is sent of each row."""
        super().__init__(layout, families)
        self._values: dict[str, str] = {}  # SQL → column
        self._tested: dict[str, str] = {}  # the same of what only conditions read, where the driver finds cells
        self.schema = RowSchema(
            {m.number: tuple(self.columns_of(m)) for m in layout.members if m.signed},
            {key: self._column(self.value(key)) for m in layout.members for key in m.grouping.keys},
            {number: self._columns(component) for number, component in enumerate(layout.components)},
            len(self.tried),
            self.copied,
        )
        self.lone = tell_lone_apart(layout)

    @property
    def values(self) -> dict[str, str]:
        """Return the SQL of the keys and arguments that are sent, by column."""
        return {name: text for text, name in self._values.items()}

    def _columns(self, component: Component) -> tuple[str, ...]:
        """Name the columns that a component is aggregated from."""
        if component == ROWS or component.source != component:
            return ()
        return tuple(map(self._column, component.row_texts(self.value, self.t) or ()))

    def _column(self, text: str) -> str:
        """Return the column of an expression; a new one if it has none yet."""
        return self._values.setdefault(text, f"v{len(self._values)}")

    def _flags(self) -> dict[str, str]:
        """Write what is only true or false of a row, and its sign in a sample."""
        found = {BASE_FLAG: self.base()} if self.joins else {}
        if self.layout.revising:
            found[REVISED_FLAG] = self.revised()
        if self.layout.samples:
            found |= {SHED_FLAG: self.layout.shed, SIGN: self.signed_row()}
        if doubted := [f"{quoted(inputs_of(name))} IS NOT NULL" for name in sorted(self.layout.unwatched)]:
            found[DOUBTED_FLAG] = " OR ".join(doubted)
        return found | {failed_name(i): f"{name} IS NULL" for i, name in enumerate(self.tried.values())}

    def tested(self, cells: Cells) -> TestedColumns:
        """List the columns with the values of all axes of some cells, which only :meth:`plain` sends."""
        keys, attempts = [axis.key for axis in cells.axes], self.numbering.attempts
        failed = [attempts.get(key.attribute.text) if key.attribute.may_fail else None for key in keys]
        flags = [None if name is None else self._tested_column(f"{name} IS NULL") for name in failed]
        return TestedColumns(cells, tuple(self._tested_column(self._on_axis(key)) for key in keys), tuple(flags))

    def _tested_column(self, text: str) -> str:
        """Return the column of what conditions test: that of a key or argument if it is one."""
        return self._values.get(text) or self._tested.setdefault(text, f"x{len(self._tested)}")

    def _on_axis(self, key: AxisKey) -> str:
        """Write an attribute's value in the order of its axis; a string or a Boolean is in order as it is."""
        text = self.numbering.value(key)
        return text if key.kind in ("string", "boolean") else ordered(key, text)

    def left_out(self) -> str:
        """Write which rows are only to be counted: shed ones that are valid, and not late; it reads the marks."""
        known = f"{self.time} < {AHEAD.format(t=self.time)} AND {self.time} > {FLOOR}L"
        return (
            f"coalesce({self.layout.shed} AND {known} AND NOT ({self.time} < {WATERMARK.format(t=self.time)}), false)"
        )

    def cell_step(self) -> list[list[Column]]:
        """Write no step: cells are told where they are sent."""
        return []

    def plain(self) -> list[str]:
        """Write what is sent of rows whose slices and cells the driver finds: nothing in it changes with the batch."""
        values = [f"{text} AS {name}" for text, name in (self._values | self._tested).items()]
        flags = [f"{text} AS {name}" for name, text in self._flags().items()]
        return [f"{self.time} AS {TIME}", *values, *flags]

    @property
    def attempted(self) -> dict[str, str]:
        """Return what may fail and is attempted before it is sent, and the column of each."""
        return {**self.tried, **self.numbering.attempts}

    def before(self) -> list[Column]:
        """Write the step before :meth:`plain`, if any: what may fail, and a row's time if some value reads it."""
        timed = [written(self.time, self.t)] if any(self.t in text for text in self._values) else []
        found = [*(attempt_text(text, name) for text, name in self.attempted.items()), *timed]
        return [written("*"), *found] if found else []

    def sent(self) -> list[Column]:
        """Write the columns that are sent."""
        told = self.cell_texts() if self.signed else {}
        labels = [written(f"__l{tree}", label_name(tree)) for tree in range(max(1, len(self.layout.plan.trees)))]
        cells = [written(told[name], name) for names in self.schema.cells.values() for name in names]
        values = [written(text, name) for text, name in self._values.items()]
        flags = [written(text, name) for name, text in self._flags().items()]
        return [written(self.t, TIME), *labels, *cells, *values, *flags]

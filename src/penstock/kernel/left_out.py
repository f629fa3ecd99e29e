"""Counts rows that a sample sheds and that were never sent, among the partials of those that were.

Where nobody but queries that shed load asks for the rows of a batch, a shed one that is valid and not late serves to be
counted alone. How many there are, and their first and last time, stand for them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.share.partial_schema import GROUPING, LAST_TIME, ROW_COUNT, SHED_COUNT, has_groupings
from penstock.share.row_schema import SHED_FLAG, TIME


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The rows of a batch that were not sent."""

    rows: int
    first_us: int
    last_us: int

    def with_ends(self, sent: pa.Table) -> pa.Table:
        """Add the first and the last of them to the rows that were sent, with nothing but their times."""
        times = [self.first_us, self.last_us] if self.rows > 1 else [self.first_us]
        known = {TIME: pa.array(times, sent.schema.field(TIME).type), SHED_FLAG: pa.array([True] * len(times))}
        added = [known.get(field.name, pa.nulls(len(times), field.type)) for field in sent.schema]
        return pa.concat_tables([sent, pa.table(added, schema=sent.schema)])

    def counted_in(self, partials: pa.Table) -> pa.Table:
        """Count all others where the last one is, in the grouping that carries every row."""
        if self.rows <= 2:
            return partials
        own = np.flatnonzero(partials[GROUPING].to_numpy() == 0) if has_groupings(partials) else slice(None)
        last = (partials[LAST_TIME].to_numpy() == self.last_us) & (partials[SHED_COUNT].to_numpy() > 0)
        chosen = np.arange(partials.num_rows)[own]
        place = int(chosen[np.flatnonzero(last[own])[0]])
        for name in (ROW_COUNT, SHED_COUNT):
            counts = partials[name].to_numpy().copy()
            counts[place] += self.rows - 2
            at = partials.column_names.index(name)
            partials = partials.set_column(at, name, pa.array(counts))
        return partials

"""Counts the rows without a usable time by reason, from the labels of the batch's one job.

A valid row's label is its slice. A row without a time has none; the others have one of these labels, which no slice
has, so that counting by reason takes no further aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.share.partial_schema import GROUPING, LABEL, LAST_TIME, has_groupings, stream_rows

FLOOR: Final = -(1 << 62)  # a row before it is too early: slices could not be counted in 64 bits
_BELOW_ALL: Final = -3 * (1 << 61)  # no slice starts there
FAILED: Final = _BELOW_ALL  # the expression of the time failed
AHEAD: Final = _BELOW_ALL - 1  # of the clock, by more than max_ahead
TOO_EARLY: Final = _BELOW_ALL - 2  # to be counted in 64 bits


@dataclass(frozen=True, slots=True)
class Invalid:
    """How many rows were invalid, by reason."""

    no_time: int = 0  # it is NULL
    ahead: int = 0  # of the clock, by more than max_ahead
    failed: int = 0  # the expression of the time failed
    too_early: int = 0  # more than 146,000 years ago
    ahead_by_us: int = 0  # at most, of the rows that were ahead of the clock
    example: str | None = None  # of a time that failed: the expression, what Spark says, and the file

    def __add__(self, other: Invalid) -> Invalid:
        """Add a batch's rows; the first example stays."""
        counts = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Invalid)[:4]}
        furthest = max(self.ahead_by_us, other.ahead_by_us)
        return Invalid(**counts, ahead_by_us=furthest, example=self.example or other.example)

    @property
    def rows(self) -> int:
        """Count the rows of all reasons."""
        return self.no_time + self.ahead + self.failed + self.too_early


def without_reasons(partials: pa.Table, clock_us: int) -> tuple[Invalid, pa.Table]:
    """Read from a batch's partials why rows are invalid; they have no label any more afterwards."""
    labels = partials[LABEL]
    values = labels.fill_null(0).to_numpy()
    told = values <= FAILED
    if not labels.null_count and not told.any():
        return Invalid(), partials
    counted = stream_rows(partials).to_numpy()
    first = np.ones(len(values), np.bool_)  # of all groupings that carry every row
    if has_groupings(partials):
        first = partials[GROUPING].to_numpy() == 0
    ahead = (values == AHEAD) & first
    found = Invalid(
        no_time=int(counted[labels.is_null().to_numpy() & first].sum()),
        ahead=int(counted[ahead].sum()),
        failed=int(counted[(values == FAILED) & first].sum()),
        too_early=int(counted[(values == TOO_EARLY) & first].sum()),
    )
    if found.ahead:
        found = replace(found, ahead_by_us=int(partials[LAST_TIME].to_numpy()[ahead].max()) - clock_us)
    unlabelled = pa.array(values, mask=told | labels.is_null().to_numpy())
    return found, partials.set_column(partials.column_names.index(LABEL), LABEL, unlabelled)

"""Decides for each batch whether Spark aggregates its rows, or sends them to the driver to be aggregated there.

Spark's hash aggregation is fast while groups are few and every aggregate is a number. A shuffle costs a small batch
more than its rows do; where groups are about as many as rows, aggregating saves nothing; and one frequency table or
sketch takes all aggregates of a job out of generated code (decision 0033).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.kernel.defects import defect_of, is_of_spark
from penstock.kernel.signing import FailedRows
from penstock.model.aggregation import Aggregation
from penstock.share.layout import Layout
from penstock.spark.job.held_rows import HeldRows
from penstock.spark.job.jvm_columns import size_in_bytes
from penstock.spark.job.row_writer import can_send_rows
from penstock.stream.defect_isolation import log_defect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_ROWS: Final = 50_000  # of a batch: up to so many, the driver aggregates several groupings sooner than a shuffle
MANY_ROWS: Final = 2_000_000  # of a batch, by all cores: up to so many, it does so where these would copy each row
CHANGED_FROM: Final = 2  # times as many few rows leave it to Spark: to change the job is to compile it
MOST_ROWS: Final = 2_000_000  # of a batch that the driver takes
ROW_BYTES: Final = 10  # about so many a row in the files of a first batch, whose rows nobody has counted
MOST_BYTES: Final = 128 << 20  # of these files: about as many as most rows
WHOLE_ROWS: Final = 100_000  # of a batch: up to so many are sent with all their columns …
WHOLE_BYTES: Final = 4 << 20  # … or of the files of a first batch
MAX_RESULT: Final = "maxResultSize"  # in what Spark says when more is sent than the driver takes
MUCH_FILLED: Final = 0.25  # partials for each copy of a row, from which on Spark's aggregation saves little


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What is known of a stream's last batch."""

    rows: int
    partials: int
    rows_sent: bool = False  # to the driver


@dataclass(frozen=True, slots=True)
class AggregationChoice:
    """Who aggregates the batches of a stream, as its engine wants it."""

    wanted: Aggregation = "auto"

    def sends_rows(self, layout: Layout, batch: DataFrame | None, last: LastBatch | None, cores: int) -> bool:
        """Tell whether the rows of a batch are to be sent; ``last`` is the batch before it, None before the first.

        Spark aggregates on all ``cores``, the driver on one: the fewer there are, the more rows it aggregates sooner.
        """
        if self.wanted == "executors" or not can_send_rows(layout):
            return False
        if self.wanted == "driver":
            return True
        if isinstance(batch, HeldRows):
            return True  # they are here already
        states = any(component.is_state for component in layout.components)
        if layout.direct and not states:
            return False
        few = max(FEW_ROWS, MANY_ROWS // cores)
        if last is None:
            assert batch is not None, "a first batch tells its size"
            return size_in_bytes(batch) <= (MOST_BYTES if states else ROW_BYTES * few)
        filled = last.partials >= MUCH_FILLED * last.rows * max(1, len(layout.members))
        few *= CHANGED_FROM if last.rows_sent else 1
        return last.rows <= (MOST_ROWS if states or filled else min(MOST_ROWS, few))

    def sends_whole_rows(self, batch: DataFrame, last: LastBatch | None) -> bool:
        """Tell whether a batch is small enough for all columns of its rows to be sent, if somebody wants them."""
        return size_in_bytes(batch) <= WHOLE_BYTES if last is None else last.rows <= WHOLE_ROWS

    def leaves_to_spark(self, error: Exception) -> bool:
        """Tell whether the driver could not aggregate rows, so that Spark has to: too many came, or it met a defect.

        What Spark says of a row's expressions is none of it: the batch is run again with care.
        """
        if isinstance(error, FailedRows):
            return False
        if is_of_spark(error):
            return MAX_RESULT in str(error)
        if self.wanted == "auto":
            log_defect(defect_of(error, "the rows of a batch were aggregated in the driver"), ())
        return self.wanted == "auto"

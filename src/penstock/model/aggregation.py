"""Says where the rows of a batch are aggregated into partials."""

from __future__ import annotations

from typing import Final, Literal, get_args

# "executors": Spark aggregates, and sends partials. "driver": Spark sends rows, once each, and the driver aggregates
# them for all groupings. "auto": whichever costs less for the batch.
Aggregation = Literal["auto", "driver", "executors"]
AGGREGATIONS: Final[tuple[Aggregation, ...]] = get_args(Aggregation)

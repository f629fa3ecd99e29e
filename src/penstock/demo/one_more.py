"""Enters one more query while all the others run, and measures what that costs."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any, Final

from penstock.demo.watching import Watching
from penstock.engine import Engine

NAME: Final = "one_more"
TEXT: Final = (
    "SELECT symbol, max(price) - min(price) AS spread FROM trades [RANGE 330 seconds SLIDE 30 seconds] "
    "WHERE volume > 7500 GROUP BY symbol"
)


@dataclass(frozen=True, slots=True)
class OneMore:
    """A query that came while the others ran: how long it took to enter, and what batches took before and after."""

    seconds: float
    before: float  # seconds of a batch, the median
    after: float
    answers: int

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "query": TEXT,
            "entered_seconds": self.seconds,
            "batch_seconds_before": self.before,
            "batch_seconds_after": self.after,
            "answers": self.answers,
        }


def enter_one_more(engine: Engine) -> float:
    """Enter a query with a window, a predicate and a grouping of its own; return the seconds that it took."""
    began = time.perf_counter()
    engine.create_query(NAME, TEXT)
    return time.perf_counter() - began


def compared(engine: Engine, watching: Watching, before: int, seconds: float) -> OneMore:
    """Compare the measured batches before the query came, given how many, with those after the one that it began in."""
    measured = [batch.seconds for batch in watching.batches if batch.measured]
    earlier, later = measured[:before], measured[before + 1 :] or measured[before:]
    answers = engine.results(NAME).num_rows
    return OneMore(seconds, statistics.median(earlier), statistics.median(later), answers)

"""Words unforeseen exceptions for users and for the log.

A defect of Penstock in the partials or answers of some queries must not stop the others, nor keep a state folder from
being opened: it is charged to these queries alone (decision 0031). What the disk, memory or Spark fail at is no defect:
that stops the stream, which goes on from its last commit.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError
from penstock.store.commits import BY_A_DEFECT

LONGEST: Final = 200  # characters of an exception's text
_NO_DEFECTS: Final = (PenstockError, OSError, MemoryError)
_OF_SPARK: Final = ("pyspark", "py4j")


@dataclass(frozen=True, slots=True)
class Defect:
    """A fault of Penstock itself: what was being computed, what was raised, and the trace of it for the log."""

    doing: str
    raised: str
    trace: str

    @property
    def reason(self) -> str:
        """Say why a query is paused."""
        where = "the full trace is in the log of Penstock, at level error"
        return f"{BY_A_DEFECT}, not of the query or its rows: {self.raised}, while {self.doing}; {where}"


class Traced(Exception):
    """Stands in the log for what was raised, here or in another process: its text is the trace."""


def is_of_spark(error: BaseException) -> bool:
    """Tell whether Spark, or the way to it, raised an exception."""
    return type(error).__module__.startswith(_OF_SPARK)


def defect_of(error: Exception, doing: str) -> Defect:
    """Word an exception as a defect; what the disk, memory or Spark failed at is raised again."""
    if isinstance(error, _NO_DEFECTS) or is_of_spark(error):
        raise error
    text = " ".join(str(error).split())
    raised = f"{type(error).__name__}{f': {text[:LONGEST]}' if text else ''}"
    return Defect(doing, raised, "".join(traceback.format_exception(error)).rstrip())

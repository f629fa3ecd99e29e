"""Defines windows of time, of rows and of sessions: when each is evaluated, and where it starts and ends; or none."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.duration import format_duration


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A periodic window: an evaluation at every t ≡ offset (mod slide), over t − length ≤ ts < t."""

    length: int  # in microseconds; of a window of rows, in rows
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        """Keep lengths positive and the offset within one slide."""
        if self.length <= 0 or self.slide <= 0:
            raise ValueError("a window's range and slide are positive")
        object.__setattr__(self, "offset", self.offset % self.slide)

    def end_at_or_after(self, ts_us: int) -> int:
        """Return the first window end that is not before the time."""
        return ts_us + (self.offset - ts_us) % self.slide

    def end_after(self, ts_us: int) -> int:
        """Return the first window end later than the time."""
        return self.end_at_or_after(ts_us + 1)

    def every(self, period: int) -> Window:
        """Return the same window at another period; its ends are among the new ones if the period divides the slide."""
        return Window(self.length, period, self.offset)

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        text = f"RANGE {format_duration(self.length)} SLIDE {format_duration(self.slide)}"
        if self.offset:
            text += f" OFFSET {format_duration(self.offset)}"
        return f"[{text}]"


@dataclass(frozen=True, slots=True, order=True)
class EachRow(Window):
    """No window: a continuous query answers every row that it takes, by itself."""

    length: int = 1
    slide: int = 1

    def __str__(self) -> str:
        """Say what stands in a window's place; the language writes nothing."""
        return "each row"


@dataclass(frozen=True, slots=True, order=True)
class SessionWindow(Window):
    """Sessions: rows of a group that follow each other at most the gap apart, up to the last of them and the gap.

    Both lengths are the gap. Partials are kept by granules that are no longer, so that those of one granule are parts
    of one session.
    """

    @staticmethod
    def of(gap_us: int) -> SessionWindow:
        """Return the sessions that end after a gap."""
        return SessionWindow(gap_us, gap_us)

    @property
    def gap_us(self) -> int:
        """Return how long after its last row a session ends."""
        return self.length

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        return f"[SESSION {format_duration(self.length)}]"


@dataclass(frozen=True, slots=True, order=True)
class RowsWindow(Window):
    """A window of rows: an evaluation at every slide-th row, over the last rows up to its length.

    Rows are numbered from 0, so the same arithmetic holds with rows for microseconds: the evaluation that ends at e
    is over rows e − length ≤ number < e. ``partition`` are the columns within whose values rows are numbered apart.
    """

    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        return f"[{by}ROWS {self.length} SLIDE {self.slide}]"

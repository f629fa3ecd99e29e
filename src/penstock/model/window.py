"""Defines windows of time and of rows: when each is evaluated, and where it starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.duration import format_duration


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A periodic window: an evaluation at every t ≡ offset (mod slide), over t − range ≤ ts < t."""

    range_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        """Keep lengths positive and the offset within one slide."""
        if self.range_us <= 0 or self.slide_us <= 0:
            raise ValueError("a window's range and slide are positive")
        object.__setattr__(self, "offset_us", self.offset_us % self.slide_us)

    def end_at_or_after(self, ts_us: int) -> int:
        """Return the first window end that is not before the time."""
        return ts_us + (self.offset_us - ts_us) % self.slide_us

    def end_after(self, ts_us: int) -> int:
        """Return the first window end later than the time."""
        return self.end_at_or_after(ts_us + 1)

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        text = f"RANGE {format_duration(self.range_us)} SLIDE {format_duration(self.slide_us)}"
        if self.offset_us:
            text += f" OFFSET {format_duration(self.offset_us)}"
        return f"[{text}]"


@dataclass(frozen=True, slots=True, order=True)
class RowsWindow(Window):
    """A window of rows: an evaluation at every slide-th row, over the last rows up to the range.

    Rows are numbered from 0, so the same arithmetic holds with rows for microseconds: the evaluation that ends at e
    is over rows e − range ≤ number < e. ``partition`` are the columns within whose values rows are numbered apart.
    """

    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        return f"[{by}ROWS {self.range_us} SLIDE {self.slide_us}]"

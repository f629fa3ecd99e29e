"""Names the kinds of windows that a stream may have: of time, of rows, and of rows numbered apart by keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.evaluate.windows.growth import Growth
from penstock.kernel.partitions import PartitionedSynopsis
from penstock.kernel.synopsis import Kernel, Synopsis
from penstock.model.derived import is_apart, is_line
from penstock.model.instants import Clock
from penstock.stream.derived.partition_windows import PartitionDueWindows
from penstock.stream.derived.row_times import dated
from penstock.stream.due_windows import DueWindows
from penstock.stream.progress import Progress


@dataclass(frozen=True, slots=True)
class WindowKind:
    """How the partials of a stream are kept, its windows found due, and its answers shown to users."""

    synopsis: Callable[[Kernel, Growth], Synopsis]
    due_windows: Callable[[Progress, Synopsis, Clock], DueWindows]
    shown: Callable[[Sequence[pa.Table], DueWindows], list[pa.Table]]


def _by_row(tables: Sequence[pa.Table], windows: DueWindows) -> list[pa.Table]:
    """Write times in place of row numbers."""
    return dated(tables, windows.progress.windows.starts)


def _by_row_of_its_part(tables: Sequence[pa.Table], windows: DueWindows) -> list[pa.Table]:
    """Write times in place of row numbers that each part counts on its own."""
    assert isinstance(windows, PartitionDueWindows)
    return dated(tables, {}, 1 if windows.parts is None else windows.parts.stride)


OF_TIME: Final = WindowKind(Synopsis, DueWindows, lambda tables, _: list(tables))
OF_ROWS: Final = WindowKind(Synopsis, DueWindows, _by_row)
OF_PARTS: Final = WindowKind(PartitionedSynopsis, PartitionDueWindows, _by_row_of_its_part)


def window_kind_of(stream: str) -> WindowKind:
    """Tell the kind of windows by the name of a stream, or of its numbered rows."""
    return OF_PARTS if is_apart(stream) else OF_ROWS if is_line(stream) else OF_TIME

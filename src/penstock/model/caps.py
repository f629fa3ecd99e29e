"""Reads the caps of an engine as people write them, and refuses those that cannot be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.errors import ProjectError
from penstock.model.byte_sizes import format_bytes, parse_bytes

BLOCK_ROWS: Final = 4_096  # that wait for expensive functions together, at most
LEAST_ROW: Final = 16  # bytes of a row that waits: its time and a number
LEAST_QUEUE: Final = BLOCK_ROWS * LEAST_ROW


def size_of(memory: str | int | None) -> int:
    """Read the cap of an engine's memory; 0: none."""
    return 0 if memory is None else _read("memory", memory)


def queue_size_of(queue_bytes: str | int | None) -> int:
    """Read the cap of what waits for expensive functions; 0: none. One that no block fits into is refused."""
    if queue_bytes is None:
        return 0
    size = _read("queue_bytes", queue_bytes)
    if size < LEAST_QUEUE:
        what = f"queue_bytes: {format_bytes(size)} is less than one block of rows may take"
        detail = f"a block is up to {BLOCK_ROWS:,} rows; of a time and a number these are {LEAST_QUEUE:,} bytes"
        raise ProjectError(what, detail=detail, hint=f"Write '{LEAST_QUEUE}' or more, or leave it out for no cap.")
    return size


def _read(name: str, size: str | int) -> int:
    """Read a number of bytes."""
    try:
        return parse_bytes(size)
    except ValueError as error:
        raise ProjectError(f"{name}: {error}", hint="Leave it out for no cap.") from None


SIZES: Final[dict[str, Callable[[str | int | None], int]]] = {"memory": size_of, "queue_bytes": queue_size_of}

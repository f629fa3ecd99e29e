"""Logs each batch on a line: its rows, the seconds of each step, and the watermark after it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.model.counts import counted
from penstock.model.instants import format_instant

LOG: Final = logging.getLogger("penstock")


def log_batch(
    stream: str, number: int, rows: int, seconds: float, steps: Mapping[str, float], watermark_us: int | None
) -> None:
    """Log a batch that is committed; its answers may come after it."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    watermark = None if watermark_us is None else format_instant(watermark_us)
    told = ", ".join(f"{name} {spent:.3f}" for name, spent in steps.items())
    figures = {"commit": number, "rows": rows, "seconds": round(seconds, 4), "watermark": watermark}
    figures |= {f"{name}_seconds": round(spent, 4) for name, spent in steps.items()}
    LOG.info(
        f"batch of {counted(rows, 'row')} in {seconds:.3f} s ({told}), watermark {watermark or 'none yet'}",
        extra={"event": "batch", "stream": stream, "figures": figures},
    )

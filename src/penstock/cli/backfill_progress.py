"""Shows how far backfills are, while somebody waits for them or asks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.errors import NotRunning, RequestFailed

PERIOD_S: Final = 1.0
ANSWERED_WITHIN_S: Final = 5.0


def backfill_text(backfills: Sequence[dict[str, Any]], *, held_back: bool = False) -> str:
    """Word how far backfills are: parts of the past read, then windows answered; ``held_back``: for want of memory."""
    done, total, what = standing(backfills)
    why = "memory runs short: the cap's stage background is active"
    if total is None:
        return f"waits, as {why}" if held_back else "waits for its turn"
    return f"{done:,} of {total:,} {what}" + (f"; waits, as {why}" if held_back else "")


def standing(backfills: Sequence[dict[str, Any]]) -> tuple[int, int | None, str]:
    """Return how much is done of what there is to do, as far as it is known, and what that is."""
    answering = [one for one in backfills if one["windows"] is not None]
    reading = [one for one in backfills if one["windows"] is None and one["units"] is not None]
    if reading:
        return min(one["read"] for one in reading), max(one["units"] for one in reading), "parts of the past read"
    if answering:
        answered, windows = (sum(one[key] for one in answering) for key in ("answered", "windows"))
        return answered, windows, "windows answered"
    return 0, None, "waiting"


@contextmanager
def backfilling(folder: Path, queries: Collection[str]) -> Iterator[None]:
    """Show a bar on a terminal while an engine backfills queries."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    done = threading.Event()
    with Progress(console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("backfilling", total=None)
        watcher = threading.Thread(target=_watch, args=(done, bar, task, folder, queries), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _watch(done: threading.Event, bar: Any, task: Any, folder: Path, queries: Collection[str]) -> None:
    """Renew the bar until the work is done."""
    from penstock.control import ask_running

    wanted = {name.lower() for name in queries}
    while not done.wait(PERIOD_S):
        try:
            found = ask_running(folder, "status", {}, ANSWERED_WITHIN_S)
        except (NotRunning, RequestFailed):
            continue
        mine = [b for s in found["streams"] for b in s.get("backfills", ()) if b["query"].lower() in wanted]
        completed, total, what = standing(mine)
        bar.update(task, completed=completed, total=total, description=what)

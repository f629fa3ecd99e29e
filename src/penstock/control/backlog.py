"""Reports what a stream is behind with: rows that wait in its source, and final windows that wait to be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.model.instants import wall_clock_us

if TYPE_CHECKING:
    from penstock.spark.sources.unread_files import UnreadSource
    from penstock.stream.runner import StreamRunner


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a stream is behind with; None: nobody can tell, as the source is no folder of this machine."""

    files: int | None = None  # that no commit has taken
    bytes: int | None = None
    rows: int | None = None  # about: as many a file as those that were read had
    oldest_s: float | None = None  # since the oldest of them was written, by the machine's clock
    windows: int = 0  # final ones that are not answered
    waited_s: float = 0.0  # for which the first of them has been final
    expected_s: float = 0.0  # that answering them is expected to take


NO_BACKLOG: Final = Backlog()


def backlog_of(runner: StreamRunner) -> Backlog:
    """Tell what a stream at work is behind with; any thread may ask."""
    clock, items = runner.pipeline.progress.clock, list(runner.pipeline.committer.unanswered.items.values())
    windows = sum(len(one.ends) for item in items for one in item.members)
    now_us = runner.pipeline.clock()
    waited = max((now_us - one.final_us for item in items for one in item.members), default=0) / 1e6
    about = max(0.0, round(waited, 3)), round(sum(item.seconds for item in items), 3)
    return backlog_at(runner.pipeline.intake.unread.look(clock.source), clock.counts.ingested, windows, *about)


def backlog_at(
    unread: UnreadSource | None, ingested: int, windows: int = 0, waited_s: float = 0.0, expected_s: float = 0.0
) -> Backlog:
    """Put together what is known of a source, of which so many rows were ingested, and of windows."""
    if unread is None:
        return Backlog(windows=windows, waited_s=waited_s, expected_s=expected_s)
    rows = round(ingested / unread.read * unread.files) if unread.read else None
    age = None if unread.oldest_us is None else max(0.0, round((wall_clock_us() - unread.oldest_us) / 1e6, 3))
    return Backlog(unread.files, unread.bytes, 0 if not unread.files else rows, age, windows, waited_s, expected_s)

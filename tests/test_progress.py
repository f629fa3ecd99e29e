"""How far a run is, in a line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.cli.progress import telling


def at(ingested: int, watermark_us: int | None) -> Any:
    """Make a stream that stands somewhere and works on no batch."""
    clock = SimpleNamespace(counts=SimpleNamespace(ingested=ingested), watermark_us=watermark_us)
    under_way = SimpleNamespace(under_way=SimpleNamespace(since_us=None))
    return SimpleNamespace(
        stream=SimpleNamespace(name="s"),
        progress=SimpleNamespace(clock=clock),
        metrics=SimpleNamespace(answers=2),
        committer=SimpleNamespace(order=under_way),
    )


def test_rows_of_runs_before_are_told_apart() -> None:
    stream = at(748_941, None)
    tell = telling([stream])
    assert tell() == "0 rows (748,941 in runs before), 0 rows/s, 2 answers, watermark none yet"
    stream.progress.clock.counts.ingested += 9
    assert tell().startswith("9 rows (748,941 in runs before), ")


def test_the_watermark_is_the_least_of_the_streams_that_have_one() -> None:
    line = telling([at(0, 60_000_000), at(0, None), at(0, 120_000_000)])()
    assert line.endswith("6 answers, watermark 1970-01-01T00:01:00.000000Z (1 stream has none yet)")

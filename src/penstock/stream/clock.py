"""Holds where a stream stands in time, and what became of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.twins import Twins
from penstock.store.commits import Commit, Counts
from penstock.store.invalid import Invalid


@dataclass(slots=True)
class StreamClock:
    """The last commit of a stream, its watermark, the stretch of time in which rows were seen, and their counts."""

    number: int = -1  # last commit
    batch: int = -1  # last batch of Spark's that is in
    source: str = ""  # the source's position after it
    watermark_us: int | None = None
    last_us: int | None = None
    first_us: int | None = None
    counts: Counts = field(default_factory=Counts)
    invalid: Invalid = field(default_factory=Invalid)  # rows, by reason
    ended: bool = False
    sampling: int = 0  # level of the batches to come: queries that shed load take one row of 2^level
    asked_sampling: int = 0  # the level that users have asked for; overload may raise it
    twins: Twins = field(default_factory=Twins)  # how many rows agree, which a sample keeps or sheds together

    @property
    def seen_until_us(self) -> int | None:
        """Return the first time of which no row was seen yet."""
        return None if self.last_us is None else self.last_us + 1

    def see(self, first_us: int, last_us: int) -> None:
        """Widen the stretch of time in which rows were seen."""
        self.first_us = first_us if self.first_us is None else min(first_us, self.first_us)
        self.last_us = last_us if self.last_us is None else max(last_us, self.last_us)

    def watermark_after(self, lateness_us: int) -> int:
        """Return the watermark that the rows seen so far make; a heartbeat may have gone further."""
        assert self.last_us is not None
        seen = self.last_us - lateness_us
        return seen if self.watermark_us is None else max(seen, self.watermark_us)

    def rate(self) -> float | None:
        """Return the stream's rows per second of event time so far."""
        if self.first_us is None or self.last_us is None or self.last_us <= self.first_us:
            return None
        return self.counts.ingested / ((self.last_us - self.first_us) / 1e6)

    def restore(self, commit: Commit) -> None:
        """Stand where a commit stood."""
        self.number, self.batch = commit.number, commit.batch
        self.source = commit.source or self.source
        self.watermark_us, self.last_us, self.first_us = commit.watermark_us, commit.last_us, commit.first_us
        self.counts, self.ended, self.invalid = commit.counts, commit.ended, commit.invalid
        self.sampling, self.asked_sampling = commit.sampling, commit.asked_sampling
        self.twins = Twins.from_record(commit.twins)

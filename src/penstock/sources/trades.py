"""Describes a seeded market, whose trades are generated: symbols, rates, bursts and disorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from penstock.errors import SourceError
from penstock.model.duration import MICROSECOND, MINUTE, SECOND
from penstock.model.schema import Column
from penstock.sources.description import Options, SourceFormat

GENERATED: Final = (
    Column("ts", "timestamp"),
    Column("symbol", "string"),
    Column("price", "double"),
    Column("volume", "int"),
    Column("side", "string"),
    Column("exchange", "string"),
)


@dataclass(frozen=True, slots=True)
class Market:
    """What trades look like; shares are between 0 and 1, and ``rate`` is rows per second of event time."""

    seed: int = 1
    rows: int = 4_000_000
    symbols: int = 3_000
    zipf: float = 1.1  # 0: all symbols trade alike
    start: str = "2026-01-05 14:30:00"  # UTC
    rate: float = 1_111.0
    burst_rows: float = 0.5  # this share of a period's rows …
    burst_time: float = 0.2  # … arrives in this share of its time; equal shares: no bursts
    burst_period_us: int = MINUTE
    late_fraction: float = 0.0
    late_by_us: int = 5 * SECOND  # at most
    null_fraction: float = 0.0  # of prices, of volumes and of exchanges
    invalid_fraction: float = 0.0  # of event times that are NULL

    def __post_init__(self) -> None:
        """Refuse a market that cannot be."""
        if self.rows < 0 or self.symbols < 1 or self.rate <= 0 or self.burst_period_us < MICROSECOND:
            raise ValueError("a market has symbols, a positive rate and a positive burst period")
        for share in (self.late_fraction, self.null_fraction, self.invalid_fraction):
            if not 0 <= share <= 1:
                raise ValueError(f"{share} is not a share between 0 and 1")
        if not (0 < self.burst_rows < 1 and 0 < self.burst_time < 1 and self.late_by_us >= 1):
            raise ValueError("burst shares lie strictly between 0 and 1, and lateness is positive")

    @staticmethod
    def from_options(options: Mapping[str, str]) -> Market:
        """Read a market from options in text, as CREATE STREAM … USING trades gives them."""
        kinds: dict[str, Callable[[str], Any]] = {field.name: type(field.default) for field in fields(Market)}
        unknown = sorted(options.keys() - kinds.keys())
        if unknown:
            raise ValueError(f'no option "{unknown[0]}"; options: rows_per_batch, {", ".join(kinds)}')
        read: dict[str, Any] = {name: kinds[name](value) for name, value in options.items()}
        return Market(**read)

    @property
    def start_us(self) -> int:
        """Return the start as microseconds since the epoch."""
        return int(datetime.fromisoformat(self.start).replace(tzinfo=UTC).timestamp()) * SECOND

    @property
    def period_rows(self) -> int:
        """Return how many rows a burst period holds."""
        return max(1, round(self.rate * self.burst_period_us / SECOND))

    @property
    def period_us(self) -> int:
        """Return the burst period's length, fitted so that the rate holds with whole rows."""
        return max(1, round(self.period_rows / self.rate * SECOND))


def market_of(name: str, options: Options) -> tuple[Market, int]:
    """Read the generator's options: its market, and the rows of a batch."""
    own = dict(options)
    try:
        rows_per_batch = int(own.pop("rows_per_batch", "10000"))
        return Market.from_options(own), rows_per_batch
    except (TypeError, ValueError) as error:
        raise SourceError(f'"{name}": {error}') from None


def _check(name: str, options: Options) -> None:
    """Refuse a market that cannot be."""
    market_of(name, options)


TRADES: Final = SourceFormat(
    "trades",
    "penstock.spark.sources.generated_trades:GeneratedTrades",
    "generated",
    ("rows_per_batch", *(field.name for field in fields(Market))),
    checking=_check,
    columns=lambda item: GENERATED,
)

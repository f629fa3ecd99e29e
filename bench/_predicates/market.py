"""Generates the data of Krishnamurthy et al. (2006, Table 7): trades, closing prices and indexes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.spark.market import Market, symbols_table, write_trades

Volumes = Literal["as generated", "round lots"]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

COLUMNS: Final = "time TIMESTAMP, symbol STRING, price DOUBLE, vol INT"
INDEXES: Final = ("r3000", "r2000", "r1000")
RATE: Final = 1_138_636 / 3600  # rows a second, as in the paper's hour: as many in a window of 600 s
HALF_TRADE_UP_TO: Final = 245  # the median of the generator's volumes
ROW_GROUP: Final = 65_536  # rows; small enough that one file feeds all cores


@dataclass(frozen=True, slots=True)
class Joined:
    """Trades with what predicates look at, column by column."""

    second: Ints
    member: dict[str, Bools]
    attribute: dict[str, Floats]  # by its text in SQL

    def __len__(self) -> int:
        return len(self.second)


@dataclass(frozen=True)
class Exchange:
    """Folders of files: trades, one file a batch, and the two tables, a row for every symbol."""

    folder: Path
    files: int
    rows: int

    @property
    def trades(self) -> Path:
        return self.folder / "trades"

    @property
    def close(self) -> Path:
        return self.folder / "close"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    def paths(self) -> list[Path]:
        """List the files of trades in order of arrival."""
        return sorted(self.trades.glob("*.parquet"))

    @cached_property
    def seconds(self) -> tuple[int, int]:
        """Return the whole seconds of the first and of the last trade."""
        ends = [_whole_seconds(pq.read_table(path, columns=["time"])["time"]) for path in self.paths()]
        return min(int(e.min()) for e in ends), max(int(e.max()) for e in ends)

    def joined(self) -> Iterator[Joined]:
        """Join the files with the tables, one after the other, without Spark."""
        close, index = pq.read_table(self.close), pq.read_table(self.index)
        if not close["symbol"].equals(index["symbol"]):
            raise ValueError("both tables list the same symbols in the same order")
        cp, listed = close["cp"].to_numpy(), {name: index[name].to_numpy() for name in INDEXES}
        for path in self.paths():
            trades = pq.read_table(path)
            place = pc.index_in(trades["symbol"], value_set=close["symbol"].combine_chunks()).to_numpy()
            price, vol, before = trades["price"].to_numpy(), trades["vol"].to_numpy().astype(np.float64), cp[place]
            yield Joined(
                _whole_seconds(trades["time"]),
                {name: members[place] for name, members in listed.items()},
                {"vol": vol, "vol * price": vol * price, "abs(price - cp) / cp": np.abs(price - before) / before},
            )

    def sample(self, number: int, seed: int) -> dict[str, Floats]:
        """Draw trades from all files alike; return what they have of each attribute."""
        draw, each = np.random.default_rng(seed), -(-number // self.files)
        parts = [
            {text: values[rows] for text, values in trades.attribute.items()}
            for trades in self.joined()
            for rows in [draw.integers(0, len(trades), each)]
        ]
        mixed = draw.permutation(each * self.files)
        return {text: np.concatenate([part[text] for part in parts])[mixed] for text in parts[0]}


def write_exchange(session: SparkSession, folder: Path, rows: int, files: int, *, seed: int, rate: float) -> Exchange:
    """Generate trades and both tables, with the paper's columns; ``rate`` is rows a second of event time."""
    market = Market(seed=seed, rows=rows, rate=rate)
    exchange = _empty(folder, rows, files)
    for path in write_trades(session, market, folder / "generated", files):
        _rewrite(path, exchange.trades / path.name, {"ts": "time", "volume": "vol"}, np.asarray)
        path.unlink()
    symbols = symbols_table(session, market).toArrow()
    pq.write_table(symbols.select(["symbol", "close"]).rename_columns(["symbol", "cp"]), exchange.close / "1.parquet")
    pq.write_table(symbols.select(["symbol", *INDEXES]), exchange.index / "1.parquet")
    return exchange


def first_rows(exchange: Exchange, folder: Path, rows: int) -> Exchange:
    """Cut the first trades into an exchange of one file, with the same tables."""
    cut = _empty(folder, rows, 1)
    first = exchange.paths()[0]
    pq.write_table(pq.read_table(first).slice(0, rows), cut.trades / first.name, row_group_size=ROW_GROUP)
    for source, target in ((exchange.close, cut.close), (exchange.index, cut.index)):
        shutil.copytree(source, target, dirs_exist_ok=True)
    return cut


def with_round_lots(exchange: Exchange, folder: Path) -> Exchange:
    """Copy an exchange whose trades are of few different sizes."""
    copied = _empty(folder, exchange.rows, exchange.files)
    for path in exchange.paths():
        _rewrite(path, copied.trades / path.name, {}, in_round_lots)
    for source, target in ((exchange.close, copied.close), (exchange.index, copied.index)):
        shutil.copytree(source, target, dirs_exist_ok=True)
    return copied


def in_round_lots(volumes: Ints) -> Ints:
    """Let half of all trades be of 100 shares and the others of few different sizes, as the paper's were (§4.3.3)."""
    above = np.maximum(volumes, 101).astype(np.float64)
    unit = 10.0 ** np.floor(np.log10(above))
    return np.where(volumes <= HALF_TRADE_UP_TO, 100, np.ceil(above / unit) * unit).astype(np.int64)


def _empty(folder: Path, rows: int, files: int) -> Exchange:
    """Make the folders."""
    exchange = Exchange(folder, files, rows)
    for made in (exchange.trades, exchange.close, exchange.index):
        made.mkdir(parents=True)
    return exchange


def _rewrite(source: Path, target: Path, names: Mapping[str, str], volumes: Callable[[Ints], Ints]) -> None:
    """Write trades again with other names and volumes; Spark orders files by their time, so that stays."""
    table, modified = pq.read_table(source), source.stat().st_mtime
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    columns = {name: table[name] for name in ("time", "symbol", "price", "vol")}
    columns["vol"] = pa.array(volumes(columns["vol"].to_numpy()), pa.int32())
    pq.write_table(pa.table(columns), target, row_group_size=ROW_GROUP)
    os.utime(target, (modified, modified))


def _whole_seconds(times: pa.ChunkedArray) -> Ints:
    """Round times down to seconds."""
    seconds: Ints = times.cast(pa.int64()).to_numpy() // 1_000_000
    return seconds

"""Generates the demo's market: files of trades that are let in batch by batch, and the table of symbols."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.engine import Engine
from penstock.spark.market import Market, symbols_table, write_trades

HOUR_S: Final = 3600
SYMBOLS: Final = 3_000
TRADES: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, side STRING, exchange STRING"
LATENESS_S: Final = 5


@dataclass(frozen=True, slots=True)
class Files:
    """Trades in files by time, one a batch, and the table of symbols; readers see only what was let in."""

    folder: Path
    written: tuple[Path, ...]

    @property
    def warm(self) -> int:
        """Return how many of the first files nothing is measured with: Spark compiles plans, and Java their code."""
        return max(1, len(self.written) // 3)

    @property
    def listing(self) -> Path:
        """Return where the table of symbols is."""
        return self.folder / "listing"

    def source(self, reader: str) -> Path:
        """Return the folder that a reader looks into."""
        folder = self.folder / reader
        folder.mkdir(exist_ok=True)
        return folder

    def let_in(self, reader: str, files: Sequence[Path]) -> None:
        """Let a reader see some files; all readers read the same bytes."""
        for file in files:
            target = self.source(reader) / file.name
            try:
                os.link(file, target)
            except OSError:  # a file system without links
                shutil.copy2(file, target)


def make_market(engine: Engine, folder: Path, rows: int, seed: int, batches: int) -> Files:
    """Generate an hour of trades and the listing of symbols."""
    market = Market(seed=seed, rows=rows, symbols=SYMBOLS, rate=rows / HOUR_S, late_fraction=0.01)
    written = write_trades(engine.session, market, folder / "written", batches)
    files = Files(folder, tuple(written))
    symbols_table(engine.session, market).write.parquet(str(files.listing))
    return files


def enter_market(engine: Engine, files: Files, reader: str = "shared") -> None:
    """Enter the stream of trades that a reader sees, and the table of symbols."""
    engine.execute(
        f"""
        CREATE STREAM trades ({TRADES}) USING parquet
          OPTIONS (path = '{files.source(reader)}', maxFilesPerTrigger = '1')
          WATERMARK FOR ts AS ts - INTERVAL {LATENESS_S} SECONDS
        """
    )
    engine.create_table("listing", engine.session.read.parquet(str(files.listing)))

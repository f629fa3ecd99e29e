"""Runs filters in Esper, the specialist for them: one thread, trades in memory, answers counted, nothing kept.

``make esper`` fetches it with Maven. The driver is one Java file, which the JDK compiles as it starts. What was chosen,
so that Esper is at its best: events are arrays of objects that are made before; ranges are written as its index of
filters finds them; its timer is off; the first trades are sent once more before, so that the code is compiled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench._filters.drawn import Filter

VARIABLE: Final = "PENSTOCK_ESPER_JARS"
HOUSE: Final = Path(__file__).resolve().parents[2]
ABSENT: Final = f"there are no jars of Esper: run make esper, or name their folder in {VARIABLE}"
NO_COMPILER: Final = "there is no javac on the PATH: the driver needs a JDK"
DRIVER: Final = Path(__file__).with_name("EsperFilters.java")
MARK: Final = "ESPER "
HEAP: Final = "3g"
WARM_ROWS: Final = 500_000
TRADE: Final = np.dtype([("ts", "<i8"), ("price", "<f8"), ("volume", "<i8"), ("symbol", "<i4")])


class EsperFailed(RuntimeError):
    """Esper's process failed."""


@dataclass(frozen=True, slots=True)
class EsperRun:
    """What one run took."""

    seconds: float
    processor_s: float
    creating_s: float
    answers: int


def esper_jars(environment: Mapping[str, str] = os.environ, house: Path = HOUSE) -> Path | None:
    """Find the folder of Esper's jars: the one that is named, else the one of ``make esper``."""
    named = environment.get(VARIABLE)
    folder = Path(named) if named else house / ".esper"
    return folder if any(folder.glob("esper-runtime-*.jar")) else None


def why_absent() -> str | None:
    """Say why Esper cannot run here; None: it can."""
    if esper_jars() is None:
        return ABSENT
    return None if shutil.which("javac") else NO_COMPILER


def run_esper(trades: Path, filters: Sequence[Filter], scratch: Path) -> EsperRun:
    """Send all trades of a folder of Parquet files through Esper's filters."""
    files = [scratch / name for name in ("trades.bin", "symbols.txt", "statements.epl")]
    _write_trades(trades, files[0], files[1])
    files[2].write_text("\n".join(f"select symbol, price, volume from Trade({one.epl})" for one in filters))
    jars = esper_jars()
    assert jars is not None, ABSENT
    command = ["java", f"-Xmx{HEAP}", "-cp", f"{jars}/*", str(DRIVER), *map(str, files), str(WARM_ROWS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in ended.stdout.splitlines():
        if line.startswith(MARK):
            return EsperRun(**json.loads(line.removeprefix(MARK)))
    raise EsperFailed((ended.stderr.strip().splitlines() or ["no reason was given"])[0][:300])


def _write_trades(folder: Path, path: Path, symbols: Path) -> None:
    """Write trades as numbers that Java reads without a library."""
    table = pq.read_table(folder)
    names = table["symbol"].combine_chunks().dictionary_encode()
    found = np.empty(table.num_rows, TRADE)
    found["ts"] = table["ts"].cast(pa.int64()).to_numpy()
    found["symbol"] = names.indices.to_numpy()
    for column in ("price", "volume"):
        found[column] = table[column].to_numpy()
    found.tofile(path)
    symbols.write_text("\n".join(names.dictionary.to_pylist()))
